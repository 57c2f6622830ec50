"""How the page looks. Colours are those of Okabe and Ito, which people with any colour vision tell apart."""

from __future__ import annotations

from typing import Final

__all__ = ["STYLE"]

STYLE: Final = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c2126; --soft: #5d6873; --rule: #e1e5e9;
  --card: #f6f8f9; --blue: #0072b2; --orange: #d97a00; --good: #00795c; --bad: #c04a00;
  --fault: rgba(213, 94, 0, .20); --recovery: rgba(86, 180, 233, .20); }
@media (prefers-color-scheme: dark) { :root { --paper: #14181c; --ink: #e8ecef; --soft: #9ba6b0;
  --rule: #2c343b; --card: #1c2227; --blue: #56b4e9; --orange: #e69f00; --good: #35c79d; --bad: #ff8a45;
  --fault: rgba(230, 120, 40, .22); --recovery: rgba(86, 180, 233, .17); } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 28px; margin: 0; display: flex; gap: 14px; align-items: center; flex-wrap: wrap; }
h2 { font-size: 18px; margin: 40px 0 10px; }
p { margin: 6px 0; } .soft { color: var(--soft); }
code { font: 13px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
td:nth-child(2) code { white-space: nowrap; }
.verdict { font-size: 14px; font-weight: 600; border: 1.5px solid; border-radius: 999px; padding: 2px 12px; }
.passed { color: var(--good); } .failed { color: var(--bad); } .silent { color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(220px, 1fr)); gap: 10px;
  margin: 20px 0; }
.card { background: var(--card); border-radius: 8px; padding: 10px 14px; }
.card b { display: block; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.card span { color: var(--soft); font-size: 13px; line-height: 1.3; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 500; }
th, td { padding: 6px 12px 6px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.verdict-words { white-space: nowrap; }
.checks td:first-child { width: 34%; min-width: 260px; }
.wrong { border-left: 3px solid var(--bad); padding-left: 14px; }
.wrong h3 { font-size: 14px; font-weight: 500; margin: 14px 0 4px; }
.wrong ul { margin: 0; padding-left: 18px; font-size: 14px; } .wrong li { overflow-wrap: anywhere; }
.facts td:first-child { color: var(--soft); width: 220px; }
.facts td:nth-child(2) code { white-space: normal; }
details summary { cursor: pointer; color: var(--soft); margin: 8px 0; }
svg.timeline { width: 100%; min-width: 720px; height: auto; display: block;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
svg text { fill: var(--soft); font-size: 12px; }
svg .panel-title { fill: var(--ink); font-size: 13px; font-weight: 600; }
svg .tick { font-variant-numeric: tabular-nums; } svg .fault-number { fill: var(--bad); font-size: 11px; }
.grid { stroke: var(--rule); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1; }
.fault { fill: var(--fault); } .recovery { fill: var(--recovery); }
.fault-edge { stroke: var(--bad); stroke-width: 1; stroke-dasharray: 3 3; opacity: .7; }
.acks-line { stroke: var(--blue); stroke-width: 1.3; }
.p50-line { stroke: var(--blue); stroke-width: 1.6; stroke-linecap: round; }
.p99-line { stroke: var(--orange); stroke-width: 1.3; stroke-linecap: round; stroke-dasharray: 4 2; }
.mark { stroke: var(--ink); stroke-width: 1.6; opacity: .75; }
@media print { main { padding: 0; } }
"""
