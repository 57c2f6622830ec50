"""What mkdocs does not know about this repository: pages lie outside of docs/, too, and link to each other.

In the source tree a link leads to a file, whatever that is. On the site there are pages only. So links
between pages are turned to where the pages are there, and a link to anything else becomes its bare text:
whoever reads the site has no source tree. A link to nothing at all is left as it is, and mkdocs complains.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = "docs"
#: where pages from outside of docs/ are on the site
ELSEWHERE: Final = {
    "README.md": "project/README.md",
    "CHANGELOG.md": "project/CHANGELOG.md",
    "CONTRIBUTING.md": "project/CONTRIBUTING.md",
    "SECURITY.md": "project/SECURITY.md",
    "deploy/README.md": "deploy/README.md",
    "deploy/k8s/README.md": "deploy/k8s/README.md",
    "deploy/k8s/test/README.md": "deploy/k8s/test/README.md",
}
_LINK: Final = re.compile(r"\[(?P<text>[^\]\[]+)\]\((?P<target>[^)\s]+)\)")
_FENCE: Final = re.compile(r"^\s*```")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    for source, target in ELSEWHERE.items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  # mkdocs' signature
    return with_links_of_the_site(markdown, page.file.src_uri)


def with_links_of_the_site(markdown: str, page: str) -> str:
    """``page``: where it is on the site."""
    lines, is_code = [], False
    for line in markdown.split("\n"):
        if _FENCE.match(line):
            is_code = not is_code
        lines.append(line if is_code else _LINK.sub(lambda match: _turned(match, page), line))
    return "\n".join(lines)


def _turned(link: re.Match[str], page: str) -> str:
    path, _, anchor = link["target"].partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return link[0]
    in_repository = posixpath.normpath(posixpath.join(posixpath.dirname(_source(page)), path))
    on_site = _on_site(in_repository)
    if on_site is not None:
        relative = os.path.relpath(on_site, posixpath.dirname(page) or ".")
        return f"[{link['text']}]({relative}{'#' + anchor if anchor else ''})"
    return link["text"] if (ROOT / in_repository).exists() else link[0]


def _source(page: str) -> str:
    """Where a page of the site is in the repository."""
    sources = {target: source for source, target in ELSEWHERE.items()}
    return sources.get(page, f"{DOCS}/{page}")


def _on_site(path: str) -> str | None:
    """None: it is no page."""
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    if path.startswith(f"{DOCS}/") and path.endswith(".md") and (ROOT / path).exists():
        return path.removeprefix(f"{DOCS}/")
    directory = f"{path}/README.md"
    return _on_site(directory) if not path.endswith(".md") and (ROOT / directory).exists() else None
