import assert from "node:assert/strict";
import { createOllamaProbe, OLLAMA_PROBE_MS } from "../../src/config/probe_ollama.ts";
import { createFakeClock } from "../support/fake_clock.ts";

type Answer = (request: Request) => Response | Promise<Response>;

async function probeServer(answer: Answer): Promise<unknown> {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, answer);
  try {
    const probe = createOllamaProbe({ fetch, clock: createFakeClock() });
    return await probe(`http://127.0.0.1:${server.addr.port}`);
  } finally {
    await server.shutdown();
  }
}

Deno.test("the models of an Ollama are read from its tags", async () => {
  const paths: string[] = [];
  const tags = await probeServer((request) => {
    paths.push(new URL(request.url).pathname);
    return Response.json({ models: [{ name: "llama3.2:3b", size: 5 }], more: true });
  });
  assert.deepEqual(paths, ["/api/tags"]);
  assert.equal((tags as { models: { name: string }[] }).models[0]?.name, "llama3.2:3b");
});

Deno.test("whatever else listens there is no Ollama", async () => {
  const answers: Answer[] = [
    () => new Response("nope", { status: 404 }),
    () => new Response("<html>"),
    () => Response.json({ models: [{ name: 5 }] }),
    () => Response.json([]),
    () => Response.redirect("http://127.0.0.1:1/", 302),
    () => new Response(`{"models": [${" ".repeat(1024 * 1024)}]}`),
  ];
  for (const answer of answers) assert.equal(await probeServer(answer), null);
});

Deno.test("nobody listening is told at once", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  const clock = createFakeClock();
  const probe = createOllamaProbe({ fetch, clock });
  assert.equal(await probe(`http://127.0.0.1:${port}`), null);
  assert.equal(clock.pending(), 0);
});

Deno.test("a server that keeps silent is given up after 200 ms", async () => {
  const clock = createFakeClock();
  let aborted = false;
  const silent: typeof fetch = (_input, init) =>
    new Promise((_resolve, reject) => {
      init?.signal?.addEventListener("abort", () => {
        aborted = true;
        reject(init.signal?.reason);
      });
    });
  const probing = createOllamaProbe({ fetch: silent, clock })("http://127.0.0.1:11434");
  await clock.advance(OLLAMA_PROBE_MS - 1);
  assert.equal(aborted, false);
  await clock.advance(1);
  assert.equal(await probing, null);
  assert.equal(aborted, true);
  assert.equal(OLLAMA_PROBE_MS, 200);
});

Deno.test("a body that never ends is given up too", async () => {
  const clock = createFakeClock();
  const endless: typeof fetch = (_input, init) =>
    Promise.resolve(
      new Response(
        new ReadableStream({
          start(controller) {
            controller.enqueue(new TextEncoder().encode('{"models": ['));
            init?.signal?.addEventListener("abort", () => controller.error(init.signal?.reason));
          },
        }),
      ),
    );
  const probing = createOllamaProbe({ fetch: endless, clock })("http://127.0.0.1:11434");
  await clock.advance(OLLAMA_PROBE_MS);
  assert.equal(await probing, null);
});
