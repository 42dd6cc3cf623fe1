/*
 * The page's style sheet, put inline under the response's CSP nonce. Quiet by default: colour is kept for what needs a
 * look. Text has a contrast of at least 4.5:1 on its ground in both schemes (WCAG 2.2, 1.4.3).
 */
export const STYLE = `
:root {
  color-scheme: light dark;
  --ground: light-dark(#f7f8f8, #14171a);
  --sheet: light-dark(#ffffff, #1b1f23);
  --ink: light-dark(#1d2226, #e4e7ea);
  --muted: light-dark(#59636b, #9aa5ae);
  --line: light-dark(#dfe3e6, #2e353b);
  --bad: light-dark(#a41e22, #ff9d96);
  --bad-ground: light-dark(#fdf0ef, #351b1c);
  --warn: light-dark(#7d4e00, #f0be6a);
  --warn-ground: light-dark(#fdf5e4, #32270f);
  --info: light-dark(#2a5580, #93bfe8);
  --info-ground: light-dark(#eef4fa, #1a2936);
  --good: light-dark(#24693f, #86cf9f);
  --good-ground: light-dark(#eef7f1, #172a1e);
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
a { color: var(--info); }
:focus-visible { outline: 2px solid var(--info); outline-offset: 2px; }
code { font: 0.9em/1.4 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; }
.page { max-width: 84rem; margin: 0 auto; padding: 0 1.5rem 3rem; }
.top { display: flex; flex-wrap: wrap; align-items: center; gap: 0.25rem 1rem; padding: 1.25rem 0; }
.top h1 { font-size: 1.15rem; letter-spacing: 0.01em; margin: 0; display: flex; align-items: center; gap: 0.5rem; }
.top h1 svg { width: 1.6rem; height: 1.1rem; color: var(--good); }
.top #connection { margin: 0 0 0 auto; color: var(--muted); }
.top form { margin: 0; }
.stale #connection { color: var(--bad); font-weight: 600; }
.stale #live { opacity: 0.6; }
button {
  font: inherit; color: inherit; background: var(--sheet); cursor: pointer;
  border: 1px solid var(--line); border-radius: 6px; padding: 0.3rem 0.8rem;
}
button:hover { border-color: var(--muted); }
.cluster {
  background: var(--sheet); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.25rem 1.5rem 1.5rem; margin-bottom: 1.5rem;
}
.cluster > header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0.25rem 0.9rem; margin-bottom: 0.9rem; }
h2 { font-size: 1.35rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h3, caption { font-size: 1rem; font-weight: 600; margin: 1.5rem 0 0.5rem; text-align: left; }
.mode { color: var(--muted); }
.as-of { margin-left: auto; }
.muted { color: var(--muted); }
h3 .muted, caption .muted { font-weight: 400; }
.bad-text { color: var(--bad); }
.warn-text { color: var(--warn); }
.info-text { color: var(--info); }
.good-text { color: var(--good); }
.badge { display: inline-block; white-space: nowrap; font-weight: 600; border-radius: 5px; padding: 0.05rem 0.5rem; }
.badge.bad { color: var(--bad); background: var(--bad-ground); }
.badge.warn { color: var(--warn); background: var(--warn-ground); }
.badge.info { color: var(--info); background: var(--info-ground); }
.badge.good { color: var(--good); background: var(--good-ground); }
.banner { border-left: 3px solid var(--line); border-radius: 0 6px 6px 0; padding: 0.5rem 0.9rem; }
.banner p { margin: 0.15rem 0; }
.banner .badge { padding-left: 0; background: none; }
.banner.bad { border-color: var(--bad); background: var(--bad-ground); }
.banner.warn { border-color: var(--warn); background: var(--warn-ground); }
.banner.good { border-color: var(--good); padding-block: 0; }
.counts, .regions, .alerts ul, .quiet ul { list-style: none; margin: 0; padding: 0; }
.counts { display: flex; flex-wrap: wrap; gap: 0.25rem 1.75rem; margin-top: 1rem; }
.counts strong { font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.regions { display: flex; flex-wrap: wrap; gap: 0.15rem 1.75rem; margin-top: 0.5rem; font-size: 0.9rem; }
.alerts li { padding: 0.2rem 0; overflow-wrap: anywhere; }
.alerts code { color: var(--warn); background: var(--warn-ground); border-radius: 4px; padding: 0.1rem 0.35rem; }
.scroll { position: relative; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 0.5rem 1rem 0.5rem 0; border-top: 1px solid var(--line); }
thead th { border: 0; font-size: 0.85rem; font-weight: 400; color: var(--muted); padding-block: 0 0.3rem; white-space: nowrap; }
tbody th { font-weight: 600; overflow-wrap: anywhere; min-width: 9rem; max-width: 20rem; }
tbody th .zone { display: block; font-weight: 400; font-size: 0.85rem; color: var(--muted); }
td.number, th.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
td.why { width: 100%; min-width: 16rem; overflow-wrap: anywhere; }
td.why .line { display: block; max-width: 44rem; }
.quiet ul { display: grid; gap: 0.1rem 1.5rem; }
.quiet ul.roomy { grid-template-columns: repeat(auto-fill, minmax(min(22rem, 100%), 1fr)); }
.quiet ul.dense { grid-template-columns: repeat(auto-fill, minmax(min(11rem, 100%), 1fr)); font-size: 0.85rem; }
.quiet li { display: flex; justify-content: space-between; gap: 0.75rem; min-width: 0; border-top: 1px solid var(--line); padding: 0.15rem 0; }
.quiet li > :first-child { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.quiet li > :last-child { color: var(--muted); white-space: nowrap; font-variant-numeric: tabular-nums; }
.card { max-width: 26rem; margin: 12vh auto 0; }
.card label { display: block; font-weight: 600; margin: 1rem 0 0.3rem; }
.card input {
  width: 100%; font: inherit; color: inherit; background: var(--ground);
  border: 1px solid var(--muted); border-radius: 6px; padding: 0.45rem 0.6rem; margin-bottom: 0.9rem;
}
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
@media (max-width: 40rem) { .page { padding: 0 0.75rem 2rem; } .cluster { padding: 1rem; } .as-of { margin-left: 0; } }
@media (prefers-reduced-motion: no-preference) { #live { transition: opacity 0.3s; } }
`;
