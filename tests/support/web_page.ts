/** A page on an origin of its own, whose script says in JSON what it found. */
export interface WebPage {
  origin: string;
  /** What its script said; rejects with the error that it ended with. */
  report: Promise<unknown>;
  stop(): Promise<void>;
}

/**
 * Serves a page with this function as its script. The function is sent as text: it sees what browsers have, and `facts`, which
 * the page's own server tells it.
 */
export function startWebPage<F>(
  script: (facts: F) => Promise<unknown>,
  facts: () => F | Promise<F>,
): WebPage {
  const report = Promise.withResolvers<unknown>();
  report.promise.catch(() => {});
  const html = `<!doctype html><meta charset="utf-8"><title>page</title><script type="module">
const say = (body) => fetch("/report", { method: "POST", body: JSON.stringify(body) });
try {
  await say({ found: await (${script})(await (await fetch("/facts")).json()) });
} catch (error) {
  await say({ error: String(error.stack ?? error) });
}
</script>`;
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      switch (new URL(request.url).pathname) {
        case "/":
          return new Response(html, { headers: { "content-type": "text/html" } });
        case "/facts":
          return Response.json(await facts());
        case "/report": {
          const { found, error } = await request.json();
          if (error === undefined) report.resolve(found);
          else report.reject(new Error(error));
          return new Response();
        }
        default:
          return new Response(null, { status: 404 });
      }
    },
  );
  return {
    origin: `http://127.0.0.1:${server.addr.port}`,
    report: report.promise,
    stop: () => server.shutdown(),
  };
}
