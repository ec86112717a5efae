"""The nouns of the grammar by semantic class, in order of descending frequency.

The format of a line is `lemma gender genitive plural English [English plural]`. `-` is a genitive that equals
the lemma (feminines) or a plural that is not used (mass nouns). `m*` marks weak masculines (n-declension).
`_` joins the words of an English translation, so that one German compound has several English words.
"""

__all__ = ["COUNTRIES", "FEMALE", "MALE", "NOUNS", "SURNAMES", "TOWNS"]

NOUNS: dict[str, str] = {
    "person": """
        Mann m Mannes Männer man men
        Frau f - Frauen woman women
        Kind n Kindes Kinder child children
        Freund m Freundes Freunde friend
        Lehrer m Lehrers Lehrer teacher
        Junge m* Jungen Jungen boy
        Mädchen n Mädchens Mädchen girl
        Freundin f - Freundinnen friend
        Arzt m Arztes Ärzte doctor
        Lehrerin f - Lehrerinnen teacher
        Nachbar m* Nachbarn Nachbarn neighbour
        Student m* Studenten Studenten student
        Schüler m Schülers Schüler pupil
        Nachbarin f - Nachbarinnen neighbour
        Kollege m* Kollegen Kollegen colleague
        Gast m Gastes Gäste guest
        Ärztin f - Ärztinnen doctor
        Dame f - Damen lady
        Kollegin f - Kolleginnen colleague
        Studentin f - Studentinnen student
        Bauer m* Bauern Bauern farmer
        Polizist m* Polizisten Polizisten police_officer
        Bäcker m Bäckers Bäcker baker
        Schülerin f - Schülerinnen pupil
        Kunde m* Kunden Kunden customer
        Verkäuferin f - Verkäuferinnen shop_assistant
        Kellner m Kellners Kellner waiter
        Chef m Chefs Chefs boss
        Herr m* Herrn Herren gentleman gentlemen
        Koch m Kochs Köche cook
        Künstler m Künstlers Künstler artist
        Chefin f - Chefinnen boss
        Fahrer m Fahrers Fahrer driver
        Anwalt m Anwalts Anwälte lawyer
        Tourist m* Touristen Touristen tourist
        Maler m Malers Maler painter
        Sängerin f - Sängerinnen singer
        König m Königs Könige king
        Königin f - Königinnen queen
        Arbeiter m Arbeiters Arbeiter worker
        Krankenschwester f - Krankenschwestern nurse
        Soldat m* Soldaten Soldaten soldier
        Dieb m Diebes Diebe thief thieves
        Richterin f - Richterinnen judge
        Schauspieler m Schauspielers Schauspieler actor
        Zahnarzt m Zahnarztes Zahnärzte dentist
        Journalist m* Journalisten Journalisten journalist
        Ingenieur m Ingenieurs Ingenieure engineer
        Bürgermeister m Bürgermeisters Bürgermeister mayor
        Busfahrer m Busfahrers Busfahrer bus_driver
        Prinz m* Prinzen Prinzen prince
        Zwilling m Zwillings Zwillinge twin
    """,
    "family": """
        Mutter f - Mütter mother
        Vater m Vaters Väter father
        Bruder m Bruders Brüder brother
        Schwester f - Schwestern sister
        Sohn m Sohnes Söhne son
        Tochter f - Töchter daughter
        Großmutter f - Großmütter grandmother
        Onkel m Onkels Onkel uncle
        Großvater m Großvaters Großväter grandfather
        Tante f - Tanten aunt
        Neffe m* Neffen Neffen nephew
        Nichte f - Nichten niece
        Enkel m Enkels Enkel grandson
    """,
    "animal": """
        Hund m Hundes Hunde dog
        Katze f - Katzen cat
        Pferd n Pferdes Pferde horse
        Vogel m Vogels Vögel bird
        Kuh f - Kühe cow
        Maus f - Mäuse mouse mice
        Schwein n Schweins Schweine pig
        Schaf n Schafs Schafe sheep sheep
        Huhn n Huhns Hühner chicken
        Bär m* Bären Bären bear
        Löwe m* Löwen Löwen lion
        Ente f - Enten duck
        Affe m* Affen Affen monkey
        Elefant m* Elefanten Elefanten elephant
        Hase m* Hasen Hasen hare
        Wolf m Wolfs Wölfe wolf wolves
        Ziege f - Ziegen goat
        Esel m Esels Esel donkey
        Fuchs m Fuchses Füchse fox
        Schlange f - Schlangen snake
    """,
    "food": """
        Apfel m Apfels Äpfel apple
        Kuchen m Kuchens Kuchen cake
        Ei n Eies Eier egg
        Kartoffel f - Kartoffeln potato potatoes
        Suppe f - Suppen soup
        Tomate f - Tomaten tomato tomatoes
        Brötchen n Brötchens Brötchen bread_roll
        Birne f - Birnen pear
        Banane f - Bananen banana
        Wurst f - Würste sausage
        Salat m Salats Salate salad
        Orange f - Orangen orange
        Erdbeere f - Erdbeeren strawberry
        Kirsche f - Kirschen cherry
        Apfelkuchen m Apfelkuchens Apfelkuchen apple_cake
        Nuss f - Nüsse nut
        Zwiebel f - Zwiebeln onion
        Kartoffelsuppe f - Kartoffelsuppen potato_soup
    """,
    "foodstuff": """
        Brot n Brotes - bread
        Fleisch n Fleisches - meat
        Käse m Käses - cheese
        Reis m Reises - rice
        Schokolade f - - chocolate
        Butter f - - butter
        Obst n Obstes - fruit
        Honig m Honigs - honey
        Eis n Eises - ice_cream
        Marmelade f - - jam
    """,
    "drink": """
        Kaffee m Kaffees - coffee
        Wasser n Wassers - water
        Tee m Tees - tea
        Milch f - - milk
        Bier n Biers - beer
        Wein m Weins - wine
        Saft m Safts - juice
        Orangensaft m Orangensafts - orange_juice
        Apfelsaft m Apfelsafts - apple_juice
        Mineralwasser n Mineralwassers - mineral_water
    """,
    "text": """
        Buch n Buches Bücher book
        Brief m Briefes Briefe letter
        Zeitung f - Zeitungen newspaper
        Geschichte f - Geschichten story
        Roman m Romans Romane novel
        Artikel m Artikels Artikel article
        Nachricht f - Nachrichten message
        Gedicht n Gedichts Gedichte poem
        Bericht m Berichts Berichte report
        Postkarte f - Postkarten postcard
        Märchen n Märchens Märchen fairy_tale
        Zeitschrift f - Zeitschriften magazine
        Wörterbuch n Wörterbuchs Wörterbücher dictionary
        Liebesbrief m Liebesbriefes Liebesbriefe love_letter
        Tagebuch n Tagebuchs Tagebücher diary
        Liste f - Listen list
        Kochbuch n Kochbuchs Kochbücher cookbook
        Gästebuch n Gästebuchs Gästebücher guest_book
    """,
    "thing": """
        Schlüssel m Schlüssels Schlüssel key
        Tasche f - Taschen bag
        Bild n Bildes Bilder picture
        Geschenk n Geschenks Geschenke present
        Uhr f - Uhren watch
        Handy n Handys Handys mobile_phone
        Ball m Balls Bälle ball
        Koffer m Koffers Koffer suitcase
        Flasche f - Flaschen bottle
        Glas n Glases Gläser glass
        Computer m Computers Computer computer
        Lampe f - Lampen lamp
        Tasse f - Tassen cup
        Messer n Messers Messer knife knives
        Kamera f - Kameras camera
        Regenschirm m Regenschirms Regenschirme umbrella
        Teller m Tellers Teller plate
        Ring m Rings Ringe ring
        Löffel m Löffels Löffel spoon
        Gabel f - Gabeln fork
        Kiste f - Kisten box
        Fahrkarte f - Fahrkarten ticket
        Puppe f - Puppen doll
        Kerze f - Kerzen candle
        Spiegel m Spiegels Spiegel mirror
        Bleistift m Bleistifts Bleistifte pencil
        Gitarre f - Gitarren guitar
        Kaffeetasse f - Kaffeetassen coffee_cup
        Weinglas n Weinglases Weingläser wine_glass
        Kissen n Kissens Kissen pillow
        Decke f - Decken blanket
        Radio n Radios Radios radio
        Wasserflasche f - Wasserflaschen water_bottle
        Eimer m Eimers Eimer bucket
        Geburtstagsgeschenk n Geburtstagsgeschenks Geburtstagsgeschenke birthday_present
        Taschenlampe f - Taschenlampen torch
        Hausschlüssel m Hausschlüssels Hausschlüssel house_key
    """,
    "clothes": """
        Kleid n Kleides Kleider dress
        Hemd n Hemdes Hemden shirt
        Mantel m Mantels Mäntel coat
        Hut m Hutes Hüte hat
        Jacke f - Jacken jacket
        Schuh m Schuhs Schuhe shoe
        Rock m Rocks Röcke skirt
        Pullover m Pullovers Pullover jumper
        Mütze f - Mützen cap
        Schal m Schals Schals scarf scarves
        Anzug m Anzugs Anzüge suit
        Bluse f - Blusen blouse
        Wintermantel m Wintermantels Wintermäntel winter_coat
        Handschuh m Handschuhs Handschuhe glove
        Lederjacke f - Lederjacken leather_jacket
        Sommerkleid n Sommerkleides Sommerkleider summer_dress
        Stiefel m Stiefels Stiefel boot
    """,
    "furniture": """
        Tisch m Tisches Tische table
        Stuhl m Stuhls Stühle chair
        Bett n Bettes Betten bed
        Schrank m Schranks Schränke cupboard
        Sofa n Sofas Sofas sofa
        Regal n Regals Regale shelf shelves
        Küchentisch m Küchentisches Küchentische kitchen_table
        Schreibtisch m Schreibtisches Schreibtische desk
        Sessel m Sessels Sessel armchair
        Gartenstuhl m Gartenstuhls Gartenstühle garden_chair
        Teppich m Teppichs Teppiche carpet
    """,
    "vehicle": """
        Auto n Autos Autos car
        Fahrrad n Fahrrads Fahrräder bicycle
        Zug m Zuges Züge train
        Bus m Busses Busse bus
        Schiff n Schiffs Schiffe ship
        Boot n Boots Boote boat
        Flugzeug n Flugzeugs Flugzeuge plane
        Motorrad n Motorrads Motorräder motorcycle
        Taxi n Taxis Taxis taxi
        Lastwagen m Lastwagens Lastwagen lorry
        Straßenbahn f - Straßenbahnen tram
        Sportwagen m Sportwagens Sportwagen sports_car
    """,
    "building": """
        Haus n Hauses Häuser house
        Wohnung f - Wohnungen flat
        Brücke f - Brücken bridge
        Turm m Turms Türme tower
        Schloss n Schlosses Schlösser castle
        Mauer f - Mauern wall
        Hütte f - Hütten hut
        Garage f - Garagen garage
        Ferienhaus n Ferienhauses Ferienhäuser holiday_home
    """,
    "opening": """
        Tür f - Türen door
        Fenster n Fensters Fenster window
        Haustür f - Haustüren front_door
        Tor n Tors Tore gate
        Schublade f - Schubladen drawer
        Küchenfenster n Küchenfensters Küchenfenster kitchen_window
    """,
    "nature": """
        Baum m Baumes Bäume tree
        Blume f - Blumen flower
        Berg m Berges Berge mountain
        Stern m Sterns Sterne star
        Fluss m Flusses Flüsse river
        Rose f - Rosen rose
        Stein m Steins Steine stone
        Wiese f - Wiesen meadow
        Apfelbaum m Apfelbaums Apfelbäume apple_tree
        Feld n Feldes Felder field
    """,
    "abstract": """
        Frage f - Fragen question
        Problem n Problems Probleme problem
        Idee f - Ideen idea
        Plan m Plans Pläne plan
        Antwort f - Antworten answer
        Wort n Wortes Wörter word
        Fehler m Fehlers Fehler mistake
        Aufgabe f - Aufgaben task
        Grund m Grundes Gründe reason
        Geheimnis n Geheimnisses Geheimnisse secret
        Name m* Namens Namen name
        Satz m Satzes Sätze sentence
        Vorschlag m Vorschlags Vorschläge suggestion
        Entscheidung f - Entscheidungen decision
        Regel f - Regeln rule
        Meinung f - Meinungen opinion
        Lösung f - Lösungen solution
    """,
    "event": """
        Film m Films Filme film
        Reise f - Reisen journey
        Spiel n Spiels Spiele game
        Konzert n Konzerts Konzerte concert
        Prüfung f - Prüfungen exam
        Hochzeit f - Hochzeiten wedding
        Ausflug m Ausflugs Ausflüge trip
        Fest n Festes Feste party
        Sitzung f - Sitzungen meeting
        Vortrag m Vortrags Vorträge lecture
        Ausstellung f - Ausstellungen exhibition
        Fußballspiel n Fußballspiels Fußballspiele football_match
        Sommerfest n Sommerfests Sommerfeste summer_party
    """,
    "sound": """
        Lied n Liedes Lieder song
        Stimme f - Stimmen voice
        Geräusch n Geräuschs Geräusche noise
    """,
    "trouble": """
        Regen m Regens - rain
        Schnee m Schnees - snow
        Wetter n Wetters - weather
        Kälte f - - cold
        Lärm m Lärms - noise
        Sturm m Sturms Stürme storm
        Krankheit f - Krankheiten illness
        Streik m Streiks Streiks strike
    """,
}

MALE = "Peter Paul Leon Martin Karl Stefan Michael Jan Tim Georg David Jakob Simon Otto"
FEMALE = "Anna Maria Julia Laura Lena Sarah Eva Sophie Clara Lisa Emma Monika Petra Nina"
SURNAMES = "Müller Schmidt Schneider Fischer Weber Meyer Wagner Becker Hoffmann Krüger Neumann Hartmann"

TOWNS = """
    Berlin Berlin
    Hamburg Hamburg
    München Munich
    Wien Vienna
    Paris Paris
    Köln Cologne
    London London
    Rom Rome
    Zürich Zurich
    Leipzig Leipzig
    Prag Prague
"""
COUNTRIES = """
    Deutschland Germany
    Italien Italy
    Frankreich France
    Spanien Spain
    Österreich Austria
    England England
    Japan Japan
"""
