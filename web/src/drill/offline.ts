/** After the first visit the drill works without the server: a service worker for this page only keeps its files (`web/offline-worker.js`). */

export function keepOffline(): void {
  if (!("serviceWorker" in navigator)) return;
  const url = new URL("drill-offline.js", location.href);
  navigator.serviceWorker.register(url, { scope: location.pathname, updateViaCache: "none" }).catch(() => undefined); // then it needs the server
}
