// Keeps one page working without the server, and controls no other; whatever the server answers comes first, what was kept is for when it
// does not. `KEPT` is put before this when the site is built: a name made from the content, so that a new build replaces the old files whole.
self.addEventListener("install", (event) => {
  event.waitUntil(
    (async () => {
      const cache = await caches.open(KEPT.name);
      await cache.addAll(KEPT.files.map((file) => new Request(file, { cache: "no-cache" })));
      await self.skipWaiting();
    })(),
  );
});

self.addEventListener("activate", (event) => {
  event.waitUntil(
    (async () => {
      for (const name of await caches.keys()) if (name.startsWith(KEPT.prefix) && name !== KEPT.name) await caches.delete(name);
      await self.clients.claim();
    })(),
  );
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method === "GET" && new URL(request.url).origin === location.origin) event.respondWith(answer(request));
});

async function answer(request) {
  const cache = await caches.open(KEPT.name);
  const kept = await cache.match(request, { ignoreSearch: true });
  try {
    const fresh = await fetch(request, kept ? { signal: AbortSignal.timeout(5000) } : {});
    if (fresh.ok) await cache.put(request.url.split(/[?#]/)[0], fresh.clone());
    return fresh;
  } catch (error) {
    if (kept) return kept;
    throw error;
  }
}
