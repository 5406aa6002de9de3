/** After the first visit the page works without the server: a service worker for this page only keeps its files (`sphinx_ext/offline_worker.js`). */

export function keepOffline(page: "drill" | "mock"): void {
  if (!("serviceWorker" in navigator)) return;
  const url = new URL(`${page}-offline.js`, location.href);
  navigator.serviceWorker.register(url, { scope: location.pathname, updateViaCache: "none" }).catch(() => undefined); // then it needs the server
}
