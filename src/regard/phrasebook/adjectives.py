"""The adjectives and adverbs of the grammar, in order of descending frequency.

The format of a line is `stem [comparative superlative-stem] | English [comparative superlative] | noun
classes`. Without German forms, the comparative ends in `-er` and the superlative in `-st`; `!` marks
adjectives without comparison. Without English forms, the comparative ends in `-er`; `*` marks comparison with
`more` and `most`.
"""

__all__ = ["ADJECTIVES", "COLOR_CLASSES", "MANNERS", "MIDDLE", "OPPOSITES", "SENTENCE_ADVERBS"]

ADJECTIVES = """
    alt älter ältest | old | person animal clothes furniture vehicle building text place thing nature
    klein | small | person animal thing clothes furniture vehicle building place nature
    groß größer größt | big bigger biggest | animal thing furniture vehicle building place nature
    neu neuer neuest | new | thing clothes furniture vehicle building text event
    gut besser best | good better best | food foodstuff drink text event abstract
    schön | beautiful * | thing clothes building place nature text event sound
    jung jünger jüngst | young | person animal
    rot ! | red | COLOR
    lang länger längst | long | text event
    freundlich | friendly friendlier friendliest | person
    interessant interessanter interessantest | interesting * | text event abstract
    wichtig | important * | text event abstract
    kurz kürzer kürzest | short | text event
    müde müder müdest | tired * | person animal
    glücklich | happy happier happiest | person
    teuer teurer teuerst | expensive * | thing clothes furniture vehicle
    schwarz ! | black | COLOR animal
    nett netter nettest | nice | person
    blau ! | blue | COLOR
    kalt kälter kältest | cold | drink food
    krank ! | sick | person animal
    schwierig | difficult * | abstract text
    heiß heißer heißest | hot hotter hottest | drink
    billig | cheap | thing clothes furniture vehicle
    stark stärker stärkst | strong | person animal
    klug klüger klügst | clever | person animal
    weiß ! | white | COLOR animal
    arm ärmer ärmst | poor | person
    reich | rich | person
    traurig | sad sadder saddest | person text
    grün ! | green | COLOR
    langweilig | boring * | text event
    frisch frischer frischest | fresh | food foodstuff
    schnell | fast | vehicle
    hungrig | hungry hungrier hungriest | person animal
    einfach | simple simpler simplest | abstract text
    berühmt berühmter berühmtest | famous * | person building text
    schmutzig | dirty dirtier dirtiest | clothes thing vehicle
    schwer | heavy heavier heaviest | thing furniture
    braun ! | brown | COLOR animal
    fleißig | hard-working * | person
    gefährlich | dangerous * | animal place
    ruhig | quiet | place person
    warm wärmer wärmst | warm | clothes drink
    leer ! | empty | place building
    gelb ! | yellow | COLOR
    hoch höher höchst | high | building
    süß süßer süßest | sweet | food
    lustig | funny funnier funniest | text person event
    gesund gesünder gesündest | healthy healthier healthiest | person animal foodstuff
    dunkel dunkler dunkelst | dark | place
    modern moderner modernst | modern * | building furniture place
    leicht leichter leichtest | light | thing
    faul | lazy lazier laziest | person animal
    sauber | clean | clothes thing place
    höflich | polite * | person
    seltsam | strange | event abstract sound text
    spannend spannender spannendst | exciting * | text event
    grau ! | grey | COLOR animal
    ehrlich | honest * | person
    laut lauter lautest | loud | sound
    mutig | brave | person
    falsch ! | wrong | abstract
    kaputt ! | broken | vehicle thing furniture
    wunderbar | wonderful * | event place text
    breit breiter breitest | wide | opening
    wild wilder wildest | wild | animal
    bequem | comfortable * | furniture clothes
    nervös nervöser nervösest | nervous * | person
    praktisch | practical * | thing clothes
    bekannt bekannter bekanntest | well-known * | person text
"""
# The noun classes that replace `COLOR` in a line.
COLOR_CLASSES = "thing clothes furniture vehicle"

# Groups of adjectives that exclude each other.
OPPOSITES = (
    "rot schwarz blau weiß grün braun gelb grau",
    "alt jung neu modern frisch",
    "groß klein",
    "lang kurz",
    "kalt heiß warm",
    "gesund krank",
    "teuer billig",
    "reich arm",
    "schwer leicht",
    "schwierig einfach leicht",
    "interessant langweilig spannend",
    "glücklich traurig lustig",
    "sauber schmutzig",
    "fleißig faul",
    "laut ruhig",
    "ruhig nervös gefährlich",
    "neu kaputt",
    "berühmt bekannt",
    "gut falsch",
    "freundlich nett",
)

MANNERS = """
    schnell | quickly
    langsam | slowly
    leise | quietly
    allein | alone
    vorsichtig | carefully
    laut | loudly
    sofort | immediately
    heimlich | secretly
    gut | well
    sehr schnell | very quickly
    geduldig | patiently
    sehr , sehr langsam | very , very slowly
    so schnell wie möglich | as quickly as possible
    Schritt für Schritt | step by step
"""
MIDDLE = """
    oft | often
    immer | always
    nie | never
    auch | also
    manchmal | sometimes
    selten | rarely
    wahrscheinlich | probably
    fast immer | almost always
    fast nie | almost never
    sehr oft | very often
"""
SENTENCE_ADVERBS = """
    leider | unfortunately
    vielleicht | perhaps
    natürlich | of course | *
    zum Glück | fortunately | *
    plötzlich | suddenly
    endlich | at last | *
    deshalb | therefore
    trotzdem | nevertheless
"""
