"""Words that tell a question's language rather than its subject. Accents are folded and apostrophes left out."""

from __future__ import annotations

STOP_WORDS: dict[str, frozenset[str]] = {
    code: frozenset(words.split())
    for code, words in {
        "en": """a about above after again all also am an and any are arent as at be because been before being below
            between both but by can cant cannot could couldnt did didnt do does doesnt doing dont down during each few
            for from further had hadnt has hasnt have havent having he her here hers him his how i if im in into is
            isnt it its itself ive just let lets me more most my no nor not of off on once only or other our ours out
            over own please same she should shouldnt so some such tell than that thats the their theirs them then
            there theres these they this those through to too under until up us very was wasnt we were werent what
            whats when where wheres whether which while who whom whos whose why will with wont would wouldnt you your
            yours""",
        "de": """aber alle allem allen aller alles als also am an auch auf aus bei beim bin bis bist da damit dann das
            dass dein deine dem den denn der des dessen die dies diese diesem diesen dieser dieses doch dort du durch
            ein eine einem einen einer eines er es etwas euch euer fur gegen gibt hab habe haben hat hatte hatten hier
            ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder jedes jener jetzt
            kann kannst kein keine keinem keinen keiner konnen konnte man manche mein meine meinem meinen meiner mich
            mir mit muss mussen nach nicht nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner seit
            sich sie sind so solche soll sollen sollte sondern sonst uber um und uns unser unsere unter viel vom von
            vor wann war waren warum was weil welche welchem welchen welcher welches wenn wer werde werden wie wieder
            will wir wird wo wollen wurde wurden zu zum zur zwischen""",
        "fr": """a ai ainsi alors au aucun aussi autre aux avec avez avoir avons c ce ceci cela celle celui ces cet
            cette ceux chaque ci comme comment d dans de des donc dont du elle elles en encore entre es est et etaient
            etait ete etes etre eu faire fait il ils j je l la laquelle le lequel les lesquels leur leurs lors lui m
            ma mais me meme mes moi mon n ne ni nos notre nous on ont ou par pas peu peut plus pour pourquoi qu quand
            que quel quelle quelles quels qui quoi s sa sans se sera ses si son sont sous sur t ta te tes toi ton tous
            tout toute toutes tres tu un une vers vos votre vous y""",
        "es": """a al algo algun alguna ante antes aquel aquella aqui asi aun cada como con contra cual cuales cuando
            cuanto de del desde donde dos durante e el ella ellas ellos en entre era eran es esa ese eso esos esta
            estan estar estas este esto estos fue fueron ha hace hacer han hasta hay la las le les lo los mas me mi
            mientras mis mucho muy nada ni no nos nosotros nuestra nuestro o os otra otro para pero poco por porque
            puede que quien quienes se sea segun ser si sido sin sobre son su sus tambien tanto te tiene tienen toda
            todas todo todos tu tus un una unas uno unos usted ustedes y ya yo""",
        "it": """a ad agli ai al alla alle allo anche ancora avere c che chi ci come con contro cosa cui d da dagli dai
            dal dalla dalle dallo degli dei del dell della delle dello di dopo dove e ed era erano essere fa fra gli
            ha hai hanno ho i il in io l la le lei li lo loro lui ma me mi mia mie miei mio ne negli nei nel nella
            nelle nello no noi nostra nostro o ogni per perche piu poi puo qual quale quali quando quanto quella
            quelle quelli quello questa queste questi questo qui se sei senza si sia sono sta su sua sue sugli sui sul
            sulla sulle suo suoi tra tu tua tuo tutti tutto un una uno vi voi""",
        "pt": """a ainda algum alguma ao aos apos aquela aquele aqui as ate cada com como contra da das de dela dele
            depois desde do dos e ela elas ele eles em entre era essa esse esta estao estar estas este estes eu foi
            foram ha isso isto ja la lhe mais mas me mesmo meu meus minha muito na nao nas nem no nos nossa nosso num
            numa o onde os ou para pela pelas pelo pelos pode por porque quais qual quando quanto que quem se sem ser
            seu seus so sobre sua suas tambem te tem ter todas todo todos tu um uma umas uns voce voces""",
        "nl": """aan al alle als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een eens en
            er ge geen geweest haar had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je jij jou
            jouw jullie kan kon kunnen maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat onder
            ons onze ook op over reeds te tegen toch toen tot u uit uw van veel voor waar waarom wanneer want waren was
            wat we welk welke wel werd wezen wie wij wil worden wordt zal ze zei zelf zich zij zijn zo zonder zou""",
        "sv": """alla allt alltsa an anda at att av bara bli blir blev da dar de dem den denna deras dess dessa det
            detta dig din dina ditt du efter ej eller en er era ett fran for ha hade han hans har hon hos hur i icke
            in inom inte jag ju kan kunde man manga med mellan men mig min mina mitt mot mycket nar nagon nagot ni nu
            och om oss pa sa sedan sig sin sina sitt ska skall skulle som till under upp ut utan vad var vara varfor
            varit varje vem vi vid vilka vilken vilket ar over""",
        "pl": """a aby albo ale ani az bardzo bez bo by byc byl byla bylo byly ci co czy czyli dla do gdy gdzie go i ich
            ile im inne jak jaka jaki jakie jako je jego jej jest jestem jeszcze jesli juz kiedy kto ktora ktore
            ktorego ktory ktorych ktorzy lub ma maja mam mi mnie moze mozna moj na nad nam nas nasz nawet nic nich nie
            nim niz o od on ona one oni ono oraz po pod poniewaz przed przez przy sa sie skad ta tak taki takie tam
            te tego tej temu ten tez to tu tych tylko tym u w wam was wasz we wiec wszystko z za ze zeby""",
        "fi": """ei eika eivat en ennen ettei etta han hanen he heidan hyvin ilman itse ja jo joka jokin jolla jos jotka
            joten kaikki kanssa kuin kuinka kuka kun kuten me meidan mika mina minun missa mista mita mitka
            mihin mikali milloin miten miksi mutta mukaan myos ne niiden niin nyt oli olivat olla ole olen olet
            olette on onko ovat sama se sen siella siina sina sita tai taman tama tassa te tuo vaan vai vain vaikka
            voi voiko voidaan""",
        "ru": """а без был была были было быть в вам вас весь во вот все всего всех вы где да даже для до его ее если
            есть еще же за здесь и из или им их к как какая какие какой какую когда которая которого которое которой
            которые который которых кто ли либо мне может можно мой мы на над нам нас наш не него нее нет ни них но ну
            о об он она они оно от очень по под после потом почему при про с сколько со так также такие такой там те
            тем то того тоже только том ты у уже чего чем что чтобы эта эти это этого этой этом этот я""",
        "el": """αλλα αν απο αυτα αυτη αυτο αυτος για γιατι δε δεν εαν ειμαι ειναι εναν ενας ενω επι η ηταν θα και κατα
            με μετα μη μην μια μου να ο οι ολα οπου οπως οσο οταν οτι ου παρα ποια ποιο ποιος πολυ μπορει ποτε που προς
            πως σαν σας σε στα στη στην στις στο στον στους τα τη την της τι τις το τον του τους των ως""",
        "ar": """اذا الا التي الذي الذين الى ان او اي اين بعد بها به بين تم ثم حتى حيث خلال ذلك على عن عند عندما غير في
            فيه فيها قبل قد كان كانت كل كم كما كيف لا لكن لم لماذا لن له لها ليس ما متى مع من منها هذا هذه هل هناك هو
            هي و يكون""",
        "hi": """अपना अपनी अपने आप इन इस इसके इसी उन उस उसके एक और कर करना करने का कि किस किसी की कुछ के को कोई कौन
            क्या क्यों कब कहाँ कैसे जब जहाँ जा जैसे जो तक तथा तो था थी थे दिया ने नहीं पर बहुत भी मैं में यदि यह या
            ये रहा रहे लिए लेकिन वह वे सकता सकते सभी साथ से हम ही हुआ हुई है हैं हो होता होती होते""",
    }.items()
}
