"""The pages that are kept for the test: six other templates, and breakages and decoys written in other ways.

Nothing in ``limits.yaml`` or in the signals was changed for one of these.
"""

from __future__ import annotations

import json
import re

from support.labelled_pages.builder import Page, sound


def _reise(page: Page) -> None:
    page.css = "body{font-family:sans-serif;margin:0}.kopf{height:60px;background:#a30;color:#fff}.spalten{display:flex}.mitte{flex:1;padding:30px}.rand{width:280px;background:#f4f0e8}"
    page.header = '<div class="kopf">Reisen <span role="button" id="sprache" tabindex="0">Sprache</span></div>'
    page.main = (
        f'<h1>{page.words(5)}</h1><form action="/suche"><input name="von"><input name="nach"><select name="wann"><option>heute</select><button>Suchen</button></form>'
        + "".join(
            f'<div class="angebot">{page.picture(width=260, height=170)}<h2>{page.words(4)}</h2><p>{page.words(28)}</p></div>'
            for _ in range(5)
        )
    )
    page.aside = f"<p>{page.words(24)}</p>"
    page.wrap = lambda wrapped: (
        f'<div class="spalten"><div class="mitte" id="content">{wrapped.main}</div><div class="rand">{wrapped.aside}</div></div>'
    )
    page.script = "document.getElementById('sprache').onclick = () => 1; document.querySelector('#sprache').addEventListener('keydown', () => 1);"


def _bank(page: Page) -> None:
    page.css = "body{font:15px Verdana,sans-serif;background:#eef;margin:0 40px}.hero{background:#024;color:#fff;padding:60px}.three{display:grid;grid-template-columns:repeat(3,1fr);gap:20px}table{width:100%}"
    page.header = f"<b>Bank</b> {page.words(4)}"
    page.main = f'<div class="hero"><h1>{page.words(7)}</h1><p>{page.words(20)}</p></div><div class="three">{"".join(f"<article><h3>{page.words(3)}</h3><p>{page.words(30)}</p></article>" for _ in range(6))}</div>'
    page.wrap = lambda wrapped: f'<div role="main">{wrapped.main}</div>{wrapped.aside}'
    page.footer = page.words(40)


def _jobs(page: Page) -> None:
    page.css = "body{font:14px Arial;margin:0}ul.jobs{list-style:none;padding:0 12%}ul.jobs li{border-bottom:1px solid #bbb;padding:14px}"
    page.header = "<h1>Jobs</h1>"
    page.main = f'<ul class="jobs">{"".join(f"<li><h2>{page.words(4)}</h2><p>{page.words(21)}</p><button class=keep>Keep</button></li>" for _ in range(9))}</ul>'
    page.wrap = lambda wrapped: f'<div id="main">{wrapped.main}</div>{wrapped.aside}'
    page.script = "addEventListener('load', () => { for (const one of document.getElementsByClassName('keep')) one.addEventListener('click', () => one.disabled = true) });"


def _podcast(page: Page) -> None:
    sound_at = page.load(f"files.{page.site}", "/1.wav", "audio/wav", sound())
    page.css = "body{background:#1b1b22;color:#ddd;font:17px/1.6 Trebuchet MS,sans-serif;max-width:900px;margin:auto}a{color:#9cf}"
    page.main = f'<h1>{page.words(3)}</h1><audio controls src="{sound_at}"></audio>{page.paragraphs(4, 60)}{page.picture(width=420, height=260)}<p>{page.words(30)}</p>'
    page.wrap = lambda wrapped: f"<article>{wrapped.main}</article>{wrapped.aside}"
    page.footer = page.words(10)


def _school(page: Page) -> None:
    page.css = "*{box-sizing:border-box}body{margin:0;font-family:Tahoma,sans-serif}.bar{position:sticky;top:0;background:#063;color:#fff;padding:10px}.week{display:grid;grid-template-columns:repeat(5,1fr)}.week div{border:1px solid #ccc;min-height:120px;padding:8px}"
    page.header = (
        '<div class="bar">School <button id="next">Next week</button><button id="prev">Week before</button></div>'
    )
    page.main = f'<h1>{page.words(3)}</h1><div class="week">{"".join(f"<div><b>{page.words(1)}</b><p>{page.words(11)}</p></div>" for _ in range(15))}</div>{page.paragraphs(2, 35)}'
    page.wrap = lambda wrapped: f"<section>{wrapped.main}</section>{wrapped.aside}"
    page.script = "const go = (way) => () => document.title = way; next.addEventListener('click', go('next')); prev.addEventListener('click', go('prev'));"


def _town(page: Page) -> None:
    page.css = "body{font:18px Palatino,serif;margin:30px 8%}h1{color:#704}.pics img{float:left;margin:0 10px 10px 0}"
    page.header = f"<p>{page.words(5)}</p>"
    page.main = f'<h1>{page.words(4)}</h1><div class="pics">{"".join(page.picture(width=240, height=180) for _ in range(4))}</div>{page.paragraphs(6, 48)}'
    page.wrap = lambda wrapped: f"{wrapped.main}{wrapped.aside}"


TEMPLATES = (_reise, _bank, _jobs, _podcast, _school, _town)


# -- breakages ---------------------------------------------------------------------------------------------------------


def path_stopped(page: Page) -> None:
    page.stop(f"|{page.address}|$document")


def text_fetched_late(page: Page) -> None:
    data = page.load(f"content.{page.site}", "/track/v1/page", "application/json;cors", json.dumps([page.main]))
    page.main = '<div class="root"><p>Moment.</p></div>'
    page.script = f"(async () => {{ try {{ const [text] = await (await fetch('{data}')).json(); document.querySelector('.root').innerHTML = text; }} catch {{ }} }})();"
    page.stop("/track/v1/*")


def module_stopped(page: Page) -> None:
    tools = page.load(
        "esm.parts.example",
        f"/{page.number}/dom.mjs",
        "text/javascript;cors",
        "export const on = (one, kind, act) => one.addEventListener(kind, act);",
    )
    app = page.js(
        page.host,
        "/main.mjs",
        f"import {{ on }} from '{tools}'; for (const one of document.querySelectorAll('.step')) on(one, 'click', () => one.textContent = 'x');",
    )
    page.main += '<div><button class="step">One</button><button class="step">Two</button></div>'
    page.end += f'<script type="module" src="{app}"></script>'
    page.stop(f"||esm.parts.example/{page.number}/")


def style_imported(page: Page) -> None:
    sheet = page.load("css.hosting.example", f"/{page.number}/all.css", "text/css", page.css)
    page.style_from = f"<style>@import url({sheet});</style>"
    page.stop(f"||css.hosting.example/{page.number}/*.css")


def pictures_lazy(page: Page) -> None:
    page.main += "".join(page.picture(width=220, height=140) for _ in range(4))
    page.main = re.sub(r'<img src="([^"]*)"', r'<img data-src="\1"', page.main)
    lazy = page.js(
        "lazy.loading-tools.example",
        f"/{page.number}.js",
        "for (const one of document.querySelectorAll('[data-src]')) one.src = one.dataset.src;",
    )
    page.end += f'<script src="{lazy}"></script>'
    page.stop("||loading-tools.example^$script")


def player_frame(page: Page) -> None:
    film = page.load(
        "player.tubehouse.example",
        f"/embed/{page.number}",
        "text/html",
        "<body style='background:#000'><video width=300></video>",
    )
    page.main = f'<iframe src="{film}" style="width:90%;height:340px;border:0"></iframe>{page.main}'
    page.stop("||player.tubehouse.example^$subdocument")


def sign_in_frame(page: Page) -> None:
    frame = page.load(
        "id.onekey.example", f"/login?client={page.number}", "text/html", "<form><input type=password></form>"
    )
    page.main += f'<div><iframe src="{frame}" width="400" height="260"></iframe></div>'
    page.stop("||id.onekey.example^")


def payment_by_script(page: Page) -> None:
    fields = page.load("js.paywise.example", f"/fields/{page.number}", "text/html", "<input placeholder=IBAN>")
    script = page.js(
        "js.paywise.example",
        f"/v3-{page.number}.js",
        f"const one = document.createElement('iframe'); one.src = '{fields}#payment'; one.width = 380; one.height = 120; document.querySelector('#pay').append(one);",
    )
    page.main += f'<h2>Pay</h2><div id="pay"></div><script src="{script}"></script>'
    page.stop("||js.paywise.example^$script,third-party")


def busy_for_ever(page: Page) -> None:
    script = page.js(
        "flags.featurehub.example",
        f"/{page.number}.js",
        "document.querySelector('[aria-busy]').setAttribute('aria-busy', 'false');",
    )
    page.main = f'<div aria-busy="true" style="padding:30px;background:#eee">&#8987;</div>{page.main}'
    page.end += f'<script src="{script}"></script>'
    page.stop("||flags.featurehub.example^")


def wall_in_german(page: Page) -> None:
    page.load("adserve.werbenetz.example", f"/{page.number}/show", "text/plain;cors", "ok")
    page.end += (
        f"<script>fetch('https://adserve.werbenetz.example/{page.number}/show').then((one) => {{ if (!one.ok) throw 1 }}).catch(() => "
        "{ const one = document.createElement('div'); one.style = 'position:absolute;top:0;left:0;width:100%;height:600px;background:#fff;padding:80px'; "
        "one.textContent = 'Bitte schalten Sie Ihren Werbeblocker aus, um weiterzulesen.'; document.body.append(one); });</script>"
    )
    page.stop("||werbenetz.example^")


def consent_in_german(page: Page) -> None:
    manager = page.js(
        "einwilligung.dienst.example",
        f"/{page.number}.js",
        "document.querySelector('.ja').onclick = () => { document.querySelector('.frage').style.display = 'none' };",
    )
    page.end += (
        '<div class="frage" style="position:fixed;inset:15% 20%;background:#fff;border:1px solid;padding:40px">'
        "Wir und unsere Partner verarbeiten Daten. Mehr in der Datenschutzerkl&auml;rung. "
        f'<a class="ja" role="button" href="#">Alle akzeptieren</a></div><script src="{manager}"></script>'
    )
    page.stop("||dienst.example^$script")


def hidden_until_tagged(page: Page) -> None:
    script = page.js("tagging.manager.example", f"/{page.number}.js", "document.getElementById('veil').remove();")
    page.head += '<style id="veil">body>*:not(header){visibility:hidden}</style>'
    page.end += f'<script src="{script}"></script>'
    page.stop("||tagging.manager.example^")


def captcha_frame(page: Page) -> None:
    frame = page.load("www.robotcaptcha.example", f"/box/{page.number}", "text/html", "<p>I am human</p>")
    page.main += f'<form action="/apply"><input name="mail"><iframe src="{frame}" width="304" height="78"></iframe><button>Apply</button></form>'
    page.stop("||robotcaptcha.example^$subdocument")


def form_by_script(page: Page) -> None:
    page.main += '<div id="request"></div>'
    script = page.js(
        "forms.formmaker.example",
        f"/embed/{page.number}.js",
        "document.getElementById('request').innerHTML = '<form><input name=a><input name=b><input name=c><button>Send</button></form>';",
    )
    page.end += f'<script defer src="{script}"></script>'
    page.stop("||formmaker.example/embed/")


BREAKAGES = (
    *(path_stopped, text_fetched_late, module_stopped, style_imported, pictures_lazy, player_frame, sign_in_frame),
    *(
        payment_by_script,
        busy_for_ever,
        wall_in_german,
        consent_in_german,
        hidden_until_tagged,
        captcha_frame,
        form_by_script,
    ),
)


# -- decoys ------------------------------------------------------------------------------------------------------------


def anzeigen(page: Page) -> None:
    frame = page.load("banner.werbeplatz.example", f"/{page.number}", "text/html", f"<b>{page.words(6)}</b>")
    page.aside += f'<div class="anzeige-rechts"><iframe src="{frame}" width="160" height="600"></iframe></div>'
    page.stop("||werbeplatz.example^$third-party")


def native_cards(page: Page) -> None:
    card = f'<div class="card promoted"><h4>{page.words(4)}</h4><p>{page.words(12)}</p></div>'
    script = page.js(
        "feed.nativeads.example",
        f"/{page.number}.js",
        f"document.querySelector('#native').innerHTML = {json.dumps(card)};",
    )
    page.main += f'<div id="native"></div><script src="{script}"></script>'
    page.stop("||nativeads.example^")


def beacon_promise(page: Page) -> None:
    page.load("collect.beacons.example", f"/{page.number}", "text/plain;cors", "1")
    page.end += f"<script>fetch('https://collect.beacons.example/{page.number}', {{ method: 'POST', body: '1', mode: 'no-cors' }});</script>"
    page.stop("||beacons.example^")


def tag_queue(page: Page) -> None:
    script = page.js("www.tagbox.example", f"/gtm.js?id={page.number}", "window.dataLayer = { push() {} };")
    page.head += f'<script src="{script}"></script>'
    page.end += "<script>addEventListener('load', () => dataLayer.push({ event: 'ready' }));</script>"
    page.stop("/gtm.js?")


def chat_bubble(page: Page) -> None:
    script = page.js(
        "chat.helpline.example",
        f"/{page.number}.js",
        "document.body.insertAdjacentHTML('beforeend', '<div style=\"position:fixed;right:20px;bottom:20px;width:120px;height:60px;background:#39f\"><button>Chat</button></div>')",
    )
    page.end += f'<script defer src="{script}"></script>'
    page.stop("||helpline.example^$script")


def letters(page: Page) -> None:
    page.load("type.foundry.example", f"/{page.number}.woff2", "font/woff2;cors", b"")
    page.head += f"<style>@font-face{{font-family:Foundry;src:url(https://type.foundry.example/{page.number}.woff2)}}h1{{font-family:Foundry,serif}}</style>"
    page.stop("||foundry.example^$font")


def banner_picture(page: Page) -> None:
    page.aside += f'<div class="sponsor">{page.picture("cdn.bannerfarm.example", 300, 250)}</div>'
    page.stop("||bannerfarm.example^")


def replay_recorder(page: Page) -> None:
    script = page.js(
        "rec.sessionwatch.example",
        f"/{page.number}.js",
        "document.addEventListener('click', () => 1); for (const one of document.querySelectorAll('button, form, input')) for (const kind of ['click', 'submit', 'input']) one.addEventListener(kind, () => 1);",
    )
    page.end += f'<script async src="{script}"></script>'
    page.stop("||sessionwatch.example^")


def cookie_line(page: Page) -> None:
    script = page.js(
        "cookies.hinweis.example",
        f"/{page.number}.js",
        "document.body.insertAdjacentHTML('afterbegin', '<div style=\"position:fixed;top:0;width:100%;padding:20px;background:#ffc\">Diese Seite verwendet Cookies. <button>OK</button></div>')",
    )
    page.end += f'<script src="{script}"></script>'
    page.stop("||hinweis.example^")


DECOYS = (
    *(anzeigen, native_cards, beacon_promise, tag_queue, chat_bubble, letters, banner_picture, replay_recorder),
    cookie_line,
)
