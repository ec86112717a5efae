"""The places and times of the grammar with their prepositions, and fixed expressions.

The line of a place is a noun (see `nouns`) and `| preposition English | preposition English`: the
prepositions of position (with the dative) and of direction (`in`, `an`, `auf` with the accusative, `zu` with
the dative). The line of a fixed expression is `German | English [| links]`. Without links, the words are
linked one to one; `*` links each German word to each English word.
"""

__all__ = [
    "FIXED_DIRECTIONS",
    "FIXED_PLACES",
    "FIXED_TIMES",
    "GREETINGS",
    "MONTHS",
    "NUMBERS",
    "PLACES",
    "TIME_UNITS",
    "WEEKDAYS",
]

PLACES = """
    Garten m Gartens Gärten garden | in in | in into
    Schule f - Schulen school | in at | in to
    Stadt f - Städte town | in in | in to
    Park m Parks Parks park | in in | in to
    Bahnhof m Bahnhofs Bahnhöfe station | an at | zu to
    Küche f - Küchen kitchen | in in | in into
    Büro n Büros Büros office | in at | in to
    Kino n Kinos Kinos cinema | in at | in to
    Markt m Marktes Märkte market | auf at | auf to
    Restaurant n Restaurants Restaurants restaurant | in in | in to
    Zimmer n Zimmers Zimmer room | in in | in into
    Krankenhaus n Krankenhauses Krankenhäuser hospital | in in | in to
    Wald m Waldes Wälder forest | in in | in into
    Straße f - Straßen street | auf in | auf into
    Dorf n Dorfes Dörfer village | in in | in to
    Strand m Strandes Strände beach | an on | an to
    See m Sees Seen lake | an by | an to
    Hotel n Hotels Hotels hotel | in in | in to
    Museum n Museums Museen museum | in in | in to
    Supermarkt m Supermarkts Supermärkte supermarket | in in | zu to
    Kirche f - Kirchen church | in in | in to
    Bibliothek f - Bibliotheken library | in in | in to
    Universität f - Universitäten university | an at | zu to
    Theater n Theaters Theater theatre | in at | in to
    Flughafen m Flughafens Flughäfen airport | an at | zu to
    Insel f - Inseln island | auf on | auf to
    Café n Cafés Cafés café | in in | in to
    Bank f - Banken bank | in at | zu to
    Fabrik f - Fabriken factory | in in | in to
    Keller m Kellers Keller cellar | in in | in into
    Wohnzimmer n Wohnzimmers Wohnzimmer living_room | in in | in into
    Bäckerei f - Bäckereien bakery | in at | zu to
    Spielplatz m Spielplatzes Spielplätze playground | auf on | auf to
    Bauernhof m Bauernhofs Bauernhöfe farm | auf on | auf to
    Apotheke f - Apotheken chemist_shop | in at | zu to
    Bushaltestelle f - Bushaltestellen bus_stop | an at | zu to
    Schlafzimmer n Schlafzimmers Schlafzimmer bedroom | in in | in into
"""

FIXED_PLACES = """
    zu Hause | at home
    hier | here
    dort | there
    draußen | outside
    oben | upstairs
    unten | downstairs
"""
FIXED_DIRECTIONS = """
    nach Hause | home | *
    nach oben | upstairs | *
    nach draußen | outside | *
"""

FIXED_TIMES: dict[str, str] = {
    "past": """
        gestern | yesterday
        letzte Woche | last week
        letztes Jahr | last year
        gestern Abend | yesterday evening
        vorgestern | the day before yesterday | *
        damals | at that time | *
        letzten Monat | last month
        letzten Sommer | last summer
    """,
    "future": """
        morgen | tomorrow
        bald | soon
        nächste Woche | next week
        übermorgen | the day after tomorrow | *
        nächstes Jahr | next year
        morgen früh | tomorrow morning
        nächsten Monat | next month
        morgen Abend | tomorrow evening
    """,
    "now": """
        heute | today
        jetzt | now
        gerade | right now | *
        im Moment | at the moment | 0-0 0-1 1-2
    """,
    "general": """
        jeden Tag | every day
        am Abend | in the evening | 0-0 0-1 1-2
        am Morgen | in the morning | 0-0 0-1 1-2
        im Sommer | in summer
        am Wochenende | at the weekend | 0-0 0-1 1-2
        in der Nacht | at night | 0-0 2-1
        im Winter | in winter
        immer wieder | again and again | 0-0 1-1 1-2
        am Nachmittag | in the afternoon | 0-0 0-1 1-2
        jede Woche | every week
        jeden Morgen | every morning
        Tag für Tag | day after day
        jedes Jahr | every year
        am Mittag | at noon
    """,
}
WEEKDAYS = (
    "Montag:Monday Samstag:Saturday Freitag:Friday Sonntag:Sunday Dienstag:Tuesday Mittwoch:Wednesday "
    "Donnerstag:Thursday"
)
MONTHS = (
    "Juli:July Mai:May August:August Dezember:December Januar:January März:March Oktober:October "
    "September:September"
)
TIME_UNITS = "Jahren:years Tagen:days Wochen:weeks Monaten:months Stunden:hours Minuten:minutes"
NUMBERS = (
    "zwei:two drei:three vier:four fünf:five zehn:ten sechs:six sieben:seven acht:eight neun:nine "
    "zwölf:twelve elf:eleven zwanzig:twenty hundert:a_hundred fünfzig:fifty dreißig:thirty fünfzehn:fifteen "
    "fünfundzwanzig:twenty-five "
    "vierzig:forty tausend:a_thousand einundzwanzig:twenty-one zweiunddreißig:thirty-two"
)

GREETINGS = """
    guten Morgen | good morning
    guten Tag | hello | *
    vielen Dank | thank you very much | *
    guten Abend | good evening
    gute Nacht | good night
    auf Wiedersehen | goodbye | *
    herzlichen Glückwunsch | congratulations | *
    bis morgen | see you tomorrow | 0-0 0-1 1-2
    bis bald | see you soon | 0-0 0-1 1-2
    gute Reise | have a good journey | 0-0 0-1 0-2 1-3
    nein , nein | no , no
    ja , ja | yes , yes
    natürlich nicht | of course not | 0-0 0-1 1-2
    keine Angst | do not be afraid | *
"""
