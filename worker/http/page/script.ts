/** Marks a fragment as ours: a captive portal answers 200 too, and must not be taken for news. */
export const FRAGMENT_HEADER = 'farpulse-fragment';

const EVERY_MS = 2_000;
const LIMIT_MS = 8_000;

/*
 * The page's only script, put inline under the response's CSP nonce. It fetches what changes and swaps it, and says
 * so when it cannot: old news must never pass for new. It rests while nobody looks, and while text is selected, since
 * swapping would take the selection away from whoever is about to copy it.
 */
export const SCRIPT = `
(() => {
  const live = document.getElementById('live');
  const connection = document.getElementById('connection');
  if (live === null || connection === null) return;
  let freshAt = new Date();

  function say(text, stale) {
    document.body.classList.toggle('stale', stale);
    if (connection.textContent !== text) connection.textContent = text;
  }

  function selecting() {
    const selection = getSelection();
    return selection !== null && !selection.isCollapsed && live.contains(selection.anchorNode);
  }

  async function refresh() {
    if (selecting()) return say('Paused while text is selected, since ' + freshAt.toLocaleTimeString(), false);
    try {
      const response = await fetch('/fragment' + location.search, {
        cache: 'no-store', redirect: 'error', signal: AbortSignal.timeout(${LIMIT_MS}),
      });
      if (response.status === 401) return location.reload();
      if (!response.ok || !response.headers.has('${FRAGMENT_HEADER}')) throw new Error('not a fragment');
      const html = await response.text();
      const left = live.querySelector('.scroll')?.scrollLeft ?? 0;
      live.innerHTML = html;
      const scroll = live.querySelector('.scroll');
      if (scroll !== null) scroll.scrollLeft = left;
      document.title = live.firstElementChild?.dataset.title ?? document.title;
      freshAt = new Date();
      say('Live', false);
    } catch {
      say('Stale since ' + freshAt.toLocaleTimeString() + ': cannot be refreshed', true);
    }
  }

  async function loop() {
    if (!document.hidden) await refresh();
    setTimeout(loop, ${EVERY_MS});
  }

  document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });
  setTimeout(loop, ${EVERY_MS});
})();
`;
