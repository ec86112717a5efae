"""The verbs of the grammar by valency frame, in order of descending frequency.

The format of a line is `German | English | subject classes [| object classes] [| preposition]`. The German
field is the infinitive of a weak verb with the auxiliary `haben`, or infinitive, third person present,
preterite and participle. A slash marks a separable prefix (`auf/stehen`), which the other forms omit. A final
`s` marks the auxiliary `sein`. The English field is the base form, or base, past and participle. `+` marks
particles after the verb. A final `=` marks stative verbs, which have no progressive.
"""

__all__ = ["CLAUSE_VERBS", "INFINITIVE_VERBS", "MODALS", "VERBS"]

VERBS: dict[str, str] = {
    "intransitive": """
        schlafen schläft schlief geschlafen | sleep slept slept | person animal
        arbeiten | work | person
        warten | wait | person
        spielen | play | child
        lachen | laugh | person
        singen singt sang gesungen | sing sang sung | person
        tanzen | dance | person
        weinen | cry | person
        auf/stehen steht stand gestanden s | get got got +up | person
        kochen | cook | person
        auf/wachen s | wake woke woken +up | person animal
        schwimmen schwimmt schwamm geschwommen s | swim swam swum | person animal
        ein/schlafen schläft schlief geschlafen s | fall fell fallen +asleep | person animal
        lernen | study | pupil
        an/kommen kommt kam gekommen s | arrive | person vehicle
        rauchen | smoke | person
        zurück/kommen kommt kam gekommen s | come came come +back | person
        verschwinden verschwindet verschwand verschwunden s | disappear | person thing
        frühstücken | have had had +breakfast | person
        ein/kaufen | go went gone +shopping | person
        weg/laufen läuft lief gelaufen s | run ran run +away | person animal
        fern/sehen sieht sah gesehen | watch +television | person
    """,
    "transitive": """
        sehen sieht sah gesehen | see saw seen = | person | person animal vehicle building nature family
        kaufen | buy bought bought | person | thing clothes furniture food foodstuff text vehicle drink
        lesen liest las gelesen | read read read | person | text
        haben hat hatte gehabt | have had had = | person | thing clothes animal vehicle abstract
        suchen | look +for | person | thing clothes animal person
        finden findet fand gefunden | find found found = | person | thing clothes animal text abstract
        essen isst aß gegessen | eat ate eaten | person | food foodstuff
        trinken trinkt trank getrunken | drink drank drunk | person | drink
        kennen kennt kannte gekannt | know knew known = | person | person text abstract family building
        schreiben schreibt schrieb geschrieben | write wrote written | person | text
        brauchen | need = | person | thing clothes vehicle furniture foodstuff
        besuchen | visit | person | person family
        lieben | love = | person | animal drink food family event
        verstehen versteht verstand verstanden | understand understood understood = | person | text abstract
        öffnen | open | person | opening
        verkaufen | sell sold sold | person | thing furniture vehicle building clothes food
        bringen bringt brachte gebracht | bring brought brought | person | thing food drink text
        an/rufen ruft rief gerufen | call | person | person family
        vergessen vergisst vergaß vergessen | forget forgot forgotten = | person | thing text abstract
        verlieren verliert verlor verloren | lose lost lost = | person | thing clothes
        hören | hear heard heard = | person | sound person animal vehicle
        bauen | build built built | person | building furniture
        treffen trifft traf getroffen | meet met met = | person | person family
        fragen | ask | person | person family
        reparieren | repair | person | vehicle opening furniture
        waschen wäscht wusch gewaschen | wash | person | clothes vehicle
        holen | fetch | person | drink thing clothes food
        bestellen | order | person | food drink
        schließen schließt schloss geschlossen | close | person | opening
        tragen trägt trug getragen | wear wore worn | person | clothes
        bekommen bekommt bekam bekommen | get got got = | person | text thing animal abstract
        malen | paint | person | nature person animal building
        ein/laden lädt lud geladen | invite | person | person family
        benutzen | use | person | thing furniture
        zeichnen | draw drew drawn | person | nature animal building
        backen backt backte gebacken | bake | person | bread
        beobachten | watch | person | animal vehicle nature
        ab/holen | pick +up | person | person family thing
        verpassen | miss = | person | vehicle event
        auf/machen | open | person | opening
        putzen | clean | person | opening clothes furniture
        fotografieren | photograph | person | animal building nature vehicle
        lösen | solve | person | problem
        beantworten | answer | person | question
        an/ziehen zieht zog gezogen | put put put +on | person | clothes
        vor/bereiten | prepare | person | event
        stehlen stiehlt stahl gestohlen | steal stole stolen | person | thing vehicle clothes
        weg/werfen wirft warf geworfen | throw threw thrown +away | person | text thing clothes food
        mit/bringen bringt brachte gebracht | bring brought brought +along | person | thing food drink text
        singen singt sang gesungen | sing sang sung | person | song
        zerstören | destroy | person | building furniture vehicle
        erfinden erfindet erfand erfunden | invent | person | story
        unterschreiben unterschreibt unterschrieb unterschrieben | sign | person | text
        verstecken | hide hid hidden | person | thing text clothes
        füttern | feed fed fed | person | animal
        jagen | chase | animal | animal
    """,
    "dative": """
        helfen hilft half geholfen | help | person | person family
        danken | thank | person | person family
        gehören | belong +to = | thing clothes vehicle text furniture building | person family
        antworten | answer | person | person family
        folgen s | follow | person animal | person animal
        glauben | believe = | person | person family
        zu/hören | listen +to | person | person family
        vertrauen | trust = | person | person family
        gratulieren | congratulate | person | person family
        zu/sehen sieht sah gesehen | watch | person | person animal
    """,
    "pleasing": """
        gefallen gefällt gefiel gefallen | like = | text event clothes thing building vehicle | person family
    """,
    "ditransitive": """
        geben gibt gab gegeben | give gave given | person | thing drink food text
        zeigen | show showed shown | person | text thing building vehicle
        schicken | send sent sent | person | text thing
        schenken | give gave given | person | clothes thing text animal
        bringen bringt brachte gebracht | bring brought brought | person | food drink thing text
        kaufen | buy bought bought | person | food drink clothes thing text
        erzählen | tell told told | person | story
        schreiben schreibt schrieb geschrieben | write wrote written | person | letter
        verkaufen | sell sold sold | person | vehicle building furniture thing
        leihen leiht lieh geliehen | lend lent lent | person | thing vehicle text clothes
        an/bieten bietet bot geboten | offer | person | food drink
        geben gibt gab gegeben | give gave given | person | thing clothes text
    """,
    "explaining": """
        erklären | explain | person | problem question
        empfehlen empfiehlt empfahl empfohlen | recommend | person | text event drink food
        beschreiben beschreibt beschrieb beschrieben | describe | person | building nature person
        vor/lesen liest las gelesen | read read read +out | person | text
    """,
    "prepositional": """
        warten | wait | person | person vehicle text event | auf acc for
        denken denkt dachte gedacht | think thought thought | person | person family event | an acc about
        sprechen spricht sprach gesprochen | talk | person | person family | mit dat to
        suchen | search | person | thing animal clothes | nach dat for
        träumen | dream | person | event vehicle animal | von dat of
        lachen | laugh | person | text abstract person | über acc about
        sprechen spricht sprach gesprochen | talk | person | event abstract text person | über acc about
        tanzen | dance | person | person | mit dat with
        spielen | play | child | animal child thing | mit dat with
        fragen | ask | person | person vehicle text | nach dat about
        streiten streitet stritt gestritten | argue | person | person family | mit dat with
        telefonieren | talk +on_the_phone | person | person family | mit dat to
        bezahlen | pay paid paid | person | drink food clothes | für acc for
        kämpfen | fight fought fought | person animal | person animal | gegen acc against
        auf/passen | look +after | person | child animal family | auf acc -
        antworten | reply | person | question letter | auf acc to
        diskutieren | argue | person | event abstract text | über acc about
        glauben | believe = | person | abstract person | an acc in
    """,
    "reflexive": """
        sich setzen | sit sat sat +down | person
        sich aus/ruhen | rest | person animal
        sich beeilen | hurry | person
        sich freuen | be +happy | person
        sich langweilen | be +bored | person
        sich waschen wäscht wusch gewaschen | have had had +a_wash | person
        sich an/ziehen zieht zog gezogen | get got got +dressed | person
        sich hin/legen | lie lay lain +down | person animal
        sich verlaufen verläuft verlief verlaufen | get got got +lost | person
        sich irren | be +mistaken | person
    """,
    "reflexive prepositional": """
        sich freuen | be +happy | person | text event thing clothes | über acc about
        sich erinnern | remember = | person | person event abstract family | an acc -
        sich freuen | look +forward | person | event | auf acc to
        sich kümmern | take took taken +care | person | person animal family child | um acc of
        sich interessieren | be +interested | person | text abstract nature | für acc in
        sich ärgern | be +annoyed | person | abstract text person | über acc about
        sich treffen trifft traf getroffen | meet met met = | person | person family | mit dat -
        sich unterhalten unterhält unterhielt unterhalten | talk | person | person family | mit dat to
        sich beschweren | complain | person | food event person | über acc about
    """,
    "motion": """
        gehen geht ging gegangen s | go went gone | person
        fahren fährt fuhr gefahren s | go went gone | person driven
        kommen kommt kam gekommen s | come came come | person
        laufen läuft lief gelaufen s | run ran run | person animal
        reisen s | travel | person
        zurück/kehren s | return | person
        fliegen fliegt flog geflogen s | fly flew flown | person
        rennen rennt rannte gerannt s | run ran run | person animal
        um/ziehen zieht zog gezogen s | move | person
        wandern s | hike | person
    """,
    "location": """
        wohnen | live = | person
        sitzen sitzt saß gesessen | sit sat sat | person animal
        liegen liegt lag gelegen | lie lay lain | thing text clothes animal
        stehen steht stand gestanden | stand stood stood | person vehicle furniture
        leben | live = | person animal
        bleiben bleibt blieb geblieben s | stay | person animal
        arbeiten | work | person
        warten | wait | person
        spielen | play | child
        schlafen schläft schlief geschlafen | sleep slept slept | person animal
        übernachten | spend spent spent +the_night | person
    """,
    "weather": """
        regnen | rain | es
        schneien | snow | es
    """,
}

# Verbs with a clausal complement: German | English | subordinators.
CLAUSE_VERBS = """
    wissen weiß wusste gewusst | know knew known = | dass
    sagen | say said said | dass
    glauben | believe = | dass
    denken denkt dachte gedacht | think thought thought = | dass
    hoffen | hope = | dass
    fragen | ask | ob
    hören | hear heard heard = | dass
    erzählen | say said said | dass
    vergessen vergisst vergaß vergessen | forget forgot forgotten = | dass warum
    meinen | think thought thought = | dass
    verstehen versteht verstand verstanden | understand understood understood = | warum dass
    sich fragen | wonder = | ob warum wo
    behaupten | claim = | dass
    bemerken | notice = | dass
    erklären | explain | warum dass
"""
# Verbs with an infinitive clause: German | English | English form (to or ing).
INFINITIVE_VERBS = """
    versuchen | try | to
    hoffen | hope = | to
    vergessen vergisst vergaß vergessen | forget forgot forgotten = | to
    an/fangen fängt fing gefangen | start | to
    auf/hören | stop | ing
    beschließen beschließt beschloss beschlossen | decide | to
    planen | plan | to
    sich weigern | refuse = | to
    beginnen beginnt begann begonnen | begin began begun | to
    versprechen verspricht versprach versprochen | promise = | to
"""
# Modal verbs: infinitive, singular present (ich, du), preterite | English present | English past.
# "-" marks forms that are not used.
MODALS = """
    können kann kannst konnte | can | could
    müssen muss musst musste | have had had +to | have had had +to
    wollen will willst wollte | want +to | want +to
    dürfen darf darfst durfte | may | be +allowed_to
    sollen soll sollst - | should | -
    möchten möchte möchtest - | would +like_to | -
"""
