"""The pages that the limits were set with: twelve templates, fifteen breakages, fourteen decoys."""

from __future__ import annotations

import json

from support.labelled_pages.builder import Page, sound

_CSS = (
    "body{margin:0;font:16px/1.5 Georgia,serif;color:#222;background:#fafafa}header{background:#134;color:#fff;padding:16px}"
    "header a{color:#fff;margin-right:16px}main{max-width:760px;margin:0 auto;padding:24px;background:#fff}"
    "aside{max-width:760px;margin:0 auto}footer{padding:24px;background:#ddd}button{padding:8px 16px;background:#268;color:#fff;border:0}"
)
_GRID = "body{display:grid;grid-template-columns:1fr 300px;gap:16px}header,footer{grid-column:1/3}main{max-width:none;margin:0}"
_MENU = """
document.querySelector('#menu').addEventListener('click', () => document.querySelector('nav').hidden ^= 1);
for (const one of document.querySelectorAll('main button')) one.addEventListener('click', () => one.textContent = 'Done');
"""


def _frame(page: Page, css: str = "") -> None:
    page.css = _CSS + css
    page.header = (
        '<a href="/">Home</a><a href="/about">About</a><button id="menu">Menu</button><nav hidden>All parts</nav>'
    )
    page.footer = page.words(12)
    page.script = _MENU


def news(page: Page) -> None:
    _frame(page, _GRID)
    page.main = f"<h1>{page.words(6)}</h1>{page.picture()}{page.paragraphs(5)}{page.picture()}{page.paragraphs(3)}<button>Share</button>"
    page.aside = f"<h2>More</h2><ul>{''.join(f'<li>{page.words(5)}</li>' for _ in range(6))}</ul>"


def shop(page: Page) -> None:
    _frame(page, "main{display:flex;flex-wrap:wrap;gap:16px}.card{width:220px}")
    page.main = "".join(
        f'<div class="card">{page.picture(width=200, height=200)}<h3>{page.words(3)}</h3><p>{page.words(12)}</p><button>Buy</button></div>'
        for _ in range(9)
    )


def blog(page: Page) -> None:
    _frame(page)
    page.main = f"<article><h1>{page.words(5)}</h1>{page.paragraphs(7, 70)}</article>"
    page.aside = f"<h2>{page.words(2)}</h2>{page.paragraphs(1, 25)}"


def manual(page: Page) -> None:
    _frame(page, _GRID)
    page.main = "".join(
        f"<h2>{page.words(3)}</h2>{page.paragraphs(2, 40)}<pre>{page.words(14)}</pre>" for _ in range(5)
    )
    page.aside = f"<ul>{''.join(f'<li><a href=#s{n}>{page.words(2)}</a></li>' for n in range(8))}</ul>"


def forum(page: Page) -> None:
    _frame(page)
    posts = "".join(
        f"<section><h3>{page.words(2)}</h3><p>{page.words(45)}</p><button>Reply</button></section>" for _ in range(6)
    )
    page.main = (
        f'{posts}<form action="/reply"><textarea name="text"></textarea><input name="name"><button>Send</button></form>'
    )


def gallery(page: Page) -> None:
    _frame(page, "main{max-width:1000px}img{margin:4px}")
    page.main = f"<h1>{page.words(3)}</h1><p>{page.words(30)}</p>{''.join(page.picture(width=300, height=220) for _ in range(9))}"


def recipe(page: Page) -> None:
    _frame(page, _GRID)
    page.main = (
        f"<h1>{page.words(4)}</h1>{page.picture(width=640, height=300)}<ul>{''.join(f'<li>{page.words(4)}</li>' for _ in range(9))}</ul>"
        f"<ol>{''.join(f'<li>{page.words(22)}</li>' for _ in range(6))}</ol><button>Print</button>"
    )


def cinema(page: Page) -> None:
    _frame(page)
    film = page.load(f"media.{page.site}", "/film.wav", "audio/wav", sound())
    page.main = (
        f'<h1>{page.words(4)}</h1><video src="{film}" controls width="640" height="360"></video>{page.paragraphs(3)}'
    )


def entrance(page: Page) -> None:
    _frame(page)
    page.main = (
        f'<h1>Sign in</h1><p>{page.words(25)}</p><form id="signin" action="/session"><input name="user"><input name="pass" type="password">'
        "<button>Sign in</button></form>"
    )


def basket(page: Page) -> None:
    _frame(page)
    rows = "".join(f"<tr><td>{page.words(3)}</td><td>12.50</td></tr>" for _ in range(4))
    page.main = (
        f'<h1>Your basket</h1><table>{rows}</table><p>{page.words(24)}</p><form action="/order"><input name="name"><input name="street">'
        '<input name="town"><button>Order</button></form>'
    )


def results(page: Page) -> None:
    _frame(page)
    rows = "".join(f"<section><h3>{page.words(5)}</h3><p>{page.words(26)}</p></section>" for _ in range(8))
    page.main = f'<form action="/search"><input name="q" value="rivers"><button>Search</button></form>{rows}'


def board(page: Page) -> None:
    _frame(
        page,
        "main{max-width:1100px;display:grid;grid-template-columns:repeat(3,1fr);gap:12px}.tile{padding:12px;background:#eef}",
    )
    page.main = "".join(
        f'<div class="tile"><h2>{page.words(2)}</h2><p>{page.words(18)}</p><button>Open</button></div>'
        for _ in range(9)
    )


TEMPLATES = (news, shop, blog, manual, forum, gallery, recipe, cinema, entrance, basket, results, board)


# -- breakages ---------------------------------------------------------------------------------------------------------


def page_stopped(page: Page) -> None:
    page.stop(f"||{page.host}^")


def text_by_script(page: Page) -> None:
    content, page.main = page.main, '<div id="app"></div>'
    app = page.js(
        f"static.{page.site}", "/app.js", f"document.querySelector('#app').innerHTML = {json.dumps(content)};"
    )
    page.end = f'<script src="{app}"></script>' + page.end
    page.script = ""
    page.stop(f"||static.{page.site}^$script")


def library_stopped(page: Page) -> None:
    library = page.js(
        "cdn.codelib.example",
        f"/select-{page.number}.js",
        "window.$$ = (what) => [...document.querySelectorAll(what)];",
    )
    page.head += f'<script src="{library}"></script>'
    page.script = page.script.replace("document.querySelector('#menu')", "$$('#menu')[0]")
    page.stop(f"||cdn.codelib.example/select-{page.number}.js")


def style_stopped(page: Page) -> None:
    sheet = page.load(f"assets.{page.site}", "/ads-theme.css", "text/css", page.css)
    page.style_from = f'<link rel="stylesheet" href="{sheet}">'
    page.stop(f"||assets.{page.site}/ads-theme.css")


def pictures_stopped(page: Page) -> None:
    page.main += f"<div>{''.join(page.picture(f'img.{page.site}', 200, 150) for _ in range(6))}</div>"
    for address in [url for url in page.loaded if url.startswith(f"https://{page.host}/pictures/")]:
        moved = address.replace(page.host, f"img.{page.site}")
        page.loaded[moved] = page.loaded.pop(address)
        page.main = page.main.replace(address, moved)
    page.stop(f"||img.{page.site}^$image")


def video_stopped(page: Page) -> None:
    film = page.load("cdn.filmhost.example", f"/{page.number}.wav", "audio/wav", sound())
    page.main = f'<video src="{film}" controls width="560" height="315"></video>{page.main}'
    page.stop(f"||cdn.filmhost.example/{page.number}.wav")


def sign_in_stopped(page: Page) -> None:
    form = (
        '<form action="/session"><input name="user"><input type="password" name="pass"><button>Sign in</button></form>'
    )
    widget = page.js(
        f"accounts.{page.site}", "/widget.js", f"document.querySelector('#who').innerHTML = {json.dumps(form)};"
    )
    page.main = f'<div id="who"></div>{page.main}'
    page.end += f'<script src="{widget}"></script>'
    page.stop(f"||accounts.{page.site}/widget.js")


def payment_stopped(page: Page) -> None:
    frame = page.load(
        "pay.cardhouse.example", f"/checkout/{page.number}", "text/html", "<form><input placeholder=Card></form>"
    )
    page.main += f'<iframe src="{frame}" width="480" height="180"></iframe>'
    page.stop("||pay.cardhouse.example^$third-party")


def spinner_stays(page: Page) -> None:
    ready = page.js(
        "metrics.countly.example", f"/ready-{page.number}.js", "document.querySelector('.spinner').remove();"
    )
    page.head += (
        "<style>.spinner{width:64px;height:64px;border:8px solid #268;border-top-color:#fff;border-radius:50%;margin:24px auto;"
        "animation:turn 1s infinite}@keyframes turn{to{transform:rotate(1turn)}}</style>"
    )
    page.main = f'<div class="spinner"></div>{page.main}'
    page.end += f'<script src="{ready}"></script>'
    page.stop("||metrics.countly.example^")


def blocker_wall(page: Page) -> None:
    bait = page.js("ads.adhouse.example", f"/bait-{page.number}.js", "window.adsLoaded = true;")
    page.end += (
        f'<script src="{bait}"></script><script>if (!window.adsLoaded) document.body.insertAdjacentHTML("beforeend", '
        '\'<div style="position:fixed;inset:0;background:#fffd;padding:120px;z-index:99"><h2>Please disable your ad blocker</h2>'
        "<p>This site lives on advertising. Turn it off, and load the page again.</p></div>')</script>"
    )
    page.stop("||ads.adhouse.example^")


def consent_stays(page: Page) -> None:
    manager = page.js(
        "cmp.agreement.example",
        f"/{page.number}.js",
        "document.querySelector('#ask button').addEventListener('click', () => document.querySelector('#ask').remove());",
    )
    page.end += (
        '<div id="ask" style="position:fixed;left:0;right:0;bottom:0;padding:40px;background:#fff;border-top:2px solid;z-index:9">'
        "<p>We use cookies to make this site better. Read our privacy statement.</p><button>Accept all</button></div>"
        f'<script src="{manager}"></script>'
    )
    page.stop("||cmp.agreement.example^")


def flicker_guard(page: Page) -> None:
    tool = page.js("optimize.trials.example", f"/{page.number}.js", "document.body.style.opacity = 1;")
    page.body = 'style="opacity:0"'
    page.end += f'<script src="{tool}"></script>'
    page.stop("||optimize.trials.example^")


def captcha_script(page: Page) -> None:
    script = page.js(
        "api.humancheck.example", f"/{page.number}.js", "document.querySelector('#send').disabled = false;"
    )
    page.main += '<form action="/contact"><input name="mail"><textarea name="text"></textarea><button id="send" disabled>Send</button></form>'
    page.end += f'<script src="{script}"></script>'
    page.stop("||api.humancheck.example^$script")


def scroll_lock(page: Page) -> None:
    script = page.js("tags.gateway.example", f"/{page.number}.js", "document.body.style.overflow = '';")
    page.body = 'style="overflow:hidden"'
    page.main += page.paragraphs(8)
    page.end += f'<script src="{script}"></script>'
    page.stop("||tags.gateway.example^")


def rows_fetched(page: Page) -> None:
    content = page.main
    data = page.load(f"api.{page.site}", "/banners/rows.json", "application/json", json.dumps({"rows": content}))
    page.loaded[data] = ("application/json;cors", page.loaded[data][1])
    page.main = '<div id="rows"></div>'
    page.script = f"fetch('{data}').then((got) => got.json()).then((got) => document.querySelector('#rows').innerHTML = got.rows);"
    page.stop(f"||api.{page.site}/banners/")


BREAKAGES = (
    *(page_stopped, text_by_script, library_stopped, style_stopped, pictures_stopped, video_stopped, sign_in_stopped),
    *(
        payment_stopped,
        spinner_stays,
        blocker_wall,
        consent_stays,
        flicker_guard,
        captcha_script,
        scroll_lock,
        rows_fetched,
    ),
)


# -- decoys ------------------------------------------------------------------------------------------------------------


def ad_frames(page: Page) -> None:
    for place, (width, height) in enumerate(((728, 90), (300, 250))):
        frame = page.load("frames.adserver.example", f"/{page.number}/{place}", "text/html", f"<p>{page.words(9)}</p>")
        slot = f'<div class="ad-slot"><iframe src="{frame}" width="{width}" height="{height}"></iframe></div>'
        page.main = slot + page.main if not place else page.main + slot
    page.end += "<script>for (const one of document.querySelectorAll('.ad-slot iframe')) one.onerror = () => one.remove();</script>"
    page.stop("||frames.adserver.example^")


def counter(page: Page) -> None:
    script = page.js(
        "stats.tracker.example",
        f"/{page.number}.js",
        "window.counted = 1; new Image().src = 'https://stats.tracker.example/p.gif';",
    )
    page.head += f'<script async src="{script}"></script>'
    page.end += '<img src="https://stats.tracker.example/pixel.gif" width="1" height="1" alt="">'
    page.load("stats.tracker.example", "/pixel.gif", "image/png", b"")
    page.load("stats.tracker.example", "/p.gif", "image/png", b"")
    page.stop("||stats.tracker.example^")


def counter_error(page: Page) -> None:
    script = page.js("analytics.figures.example", f"/{page.number}.js", "window.ga = () => {};")
    page.head += f'<script src="{script}"></script>'
    page.end += "<script>ga('send', 'pageview');</script>"
    page.stop("||analytics.figures.example^$script")


def recommended(page: Page) -> None:
    teasers = "".join(f"<div><b>{page.words(5)}</b></div>" for _ in range(6))
    script = page.js(
        "widget.outread.example",
        f"/{page.number}.js",
        f"document.querySelector('#outread').innerHTML = {json.dumps(teasers)};",
    )
    page.aside += f'<div id="outread" class="sponsored"></div><script src="{script}"></script>'
    page.stop("||widget.outread.example^")


def share_buttons(page: Page) -> None:
    script = page.js(
        "share.social.example",
        f"/{page.number}.js",
        "document.querySelector('header').insertAdjacentHTML('beforeend', '<span>Share: <button class=s>Chirp</button></span>');"
        "document.querySelector('.s').addEventListener('click', () => 1);",
    )
    page.end += f'<script src="{script}"></script>'
    page.stop("||share.social.example^$third-party")


def newsletter(page: Page) -> None:
    form = '<form style="position:fixed;right:8px;bottom:8px;padding:24px;background:#ffd"><p>Get our newsletter</p><input name="mail"><button>Subscribe</button></form>'
    script = page.js(
        "popup.mailing.example",
        f"/{page.number}.js",
        f"document.body.insertAdjacentHTML('beforeend', {json.dumps(form)});",
    )
    page.end += f'<script src="{script}"></script>'
    page.stop("||popup.mailing.example^")


def consent_gone(page: Page) -> None:
    bar = '<div style="position:fixed;left:0;right:0;bottom:0;padding:24px;background:#eee"><p>We use cookies.</p><button>Accept</button></div>'
    script = page.js(
        "banner.consenter.example",
        f"/{page.number}.js",
        f"document.body.insertAdjacentHTML('beforeend', {json.dumps(bar)});",
    )
    page.end += f'<script src="{script}"></script>'
    page.stop("||banner.consenter.example^")


def font_stopped(page: Page) -> None:
    sheet = page.load(
        "fonts.lettering.example",
        f"/{page.number}.css",
        "text/css",
        "@font-face{font-family:Fancy;src:url(fancy.woff2)}",
    )
    page.load("fonts.lettering.example", "/fancy.woff2", "font/woff2", b"")
    page.head += f'<link rel="stylesheet" href="{sheet}">'
    page.css = page.css.replace("Georgia", "Fancy,Georgia")
    page.stop("||fonts.lettering.example^")


def ad_film(page: Page) -> None:
    film = page.load("video.adserver.example", f"/{page.number}.wav", "audio/wav", sound())
    page.aside += f'<div class="advert"><video src="{film}" autoplay muted width="300" height="250"></video></div>'
    page.stop("||video.adserver.example^")


def ad_pictures(page: Page) -> None:
    page.main = f'<a href="https://buy.example/">{page.picture("img.adserver.example", 728, 90)}</a>{page.main}'
    page.stop("||img.adserver.example^$image")


def loader_everywhere(page: Page) -> None:
    page.footer += '<div class="loader" style="width:40px;height:40px;background:#888">.</div>'
    counter(page)


def about_blockers(page: Page) -> None:
    page.main += "<p>Some sites write: please disable your ad blocker. This text is about such sites.</p>"
    counter(page)


def link_tracking(page: Page) -> None:
    script = page.js(
        "clicks.follow.example",
        f"/{page.number}.js",
        "for (const one of document.querySelectorAll('a, button')) one.addEventListener('click', () => 1);",
    )
    page.end += f'<script src="{script}"></script>'
    page.stop("||clicks.follow.example^")


def trial_with_fallback(page: Page) -> None:
    tool = page.js("trial.variants.example", f"/{page.number}.js", "document.documentElement.className = '';")
    page.html = 'class="hide"'
    page.head += f"<style>.hide body{{opacity:0}}</style><script>setTimeout(() => document.documentElement.className = '', 300)</script><script async src=\"{tool}\"></script>"
    page.stop("||trial.variants.example^")


DECOYS = (
    *(ad_frames, counter, counter_error, recommended, share_buttons, newsletter, consent_gone, font_stopped, ad_film),
    *(ad_pictures, loader_everywhere, about_blockers, link_tracking, trial_with_fallback),
)
