"""The server under a path prefix: mounted in an application, or behind a proxy that removes the prefix."""

import re
from importlib.resources import files

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from extensions.serve.served import ask, without_prefix

PREFIX = "/mt/regard"


def mounted(app):
    return Starlette(routes=[Mount(PREFIX, app)])


@pytest.mark.parametrize("place", [mounted, lambda app: without_prefix(app, PREFIX)], ids=["mount", "proxy"])
def test_api_and_all_addresses_of_the_pages_exist_under_a_path_prefix(engines, place):
    async def work(client):
        answers = [await client.post(f"{PREFIX}/translate", json={"text": "a b"})]
        for name in ("", "docs"):
            page = await client.get(f"{PREFIX}/{name}")
            addresses = [page.url.join(one) for one in re.findall(r'(?:href|src)="([^"#]+)"', page.text)]
            answers += [page, *[await client.get(address) for address in addresses]]
        return answers, await client.get(f"{PREFIX}/openapi.json")

    answers, described = ask(engines, work, place=place)
    assert len(answers) > 16 and {answer.status_code for answer in answers} == {200}
    # A relative address of a server is relative to the description (OpenAPI 3.1, Section 4.8.5).
    servers = [described.url.join(server["url"]) for server in described.json()["servers"]]
    assert {server.path.rstrip("/") for server in servers} == {PREFIX}


@pytest.mark.parametrize("package", ["regard.extensions.serve", "regard.reporting"])
def test_no_file_of_the_pages_names_an_absolute_path(package):
    for file in (files(package) / "assets").iterdir():
        if file.name.endswith((".js", ".html", ".css")):
            absolute = r"""(?:from|import\(?|fetch\(|post\(|href=|src=|action=|url\()\s*["'`]?/[\w.]"""
            assert re.findall(absolute, file.read_text(encoding="utf-8")) == [], file.name
