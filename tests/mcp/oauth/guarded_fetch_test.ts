import assert from "node:assert/strict";
import { toHubError } from "../../../src/core/error.ts";
import { createGuardedFetch, type Fetch } from "../../../src/mcp/oauth/guarded_fetch.ts";
import { systemClock } from "../../support/system_clock.ts";

const ADDRESSES: Readonly<Record<string, readonly string[]>> = {
  "public.example": ["93.184.216.34"],
  "rebound.example": ["93.184.216.34", "169.254.169.254"],
};

function guard(
  serverUrl: string,
  answer: Fetch = () => Promise.resolve(new Response("ok")),
  privateOrigins: readonly string[] = [],
) {
  const asked: string[] = [];
  const pinned: (readonly string[] | null)[] = [];
  const fetch = createGuardedFetch({
    serverUrl,
    privateOrigins,
    clock: systemClock,
    lookup: (host) => Promise.resolve(ADDRESSES[host] ?? []),
    fetch: (url, init, addresses) => {
      asked.push(String(url));
      pinned.push(addresses);
      return answer(url, init);
    },
  });
  return { fetch, asked, pinned };
}

async function refusal(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    const { code, message } = toHubError(error);
    return `${code}: ${message}`;
  }
  throw new Error("It was not refused");
}

Deno.test("a public server leads to no private address, by number or by name", async () => {
  const { fetch, asked, pinned } = guard("https://public.example/mcp");
  const targets = [
    "https://169.254.169.254/latest",
    "https://10.0.0.1/",
    "https://[::ffff:127.0.0.1]/",
    "https://0x7f.1/",
    "https://2130706433/",
    "http://localhost:5432/",
    "http://127.0.0.1/",
    "https://rebound.example/",
  ];
  for (const target of targets) {
    assert.match(await refusal(fetch(target)), /unsafe_server: .*private network/, target);
  }
  assert.deepEqual(asked, []);
  assert.equal(await (await fetch("https://public.example/x")).text(), "ok");
  assert.deepEqual(pinned, [["93.184.216.34"]]);
});

Deno.test("a private server may name its own host and port, and no other private address", async () => {
  const { fetch, asked, pinned } = guard("http://127.0.0.1:4000/mcp");
  const own = ["http://127.0.0.1:4000/token", "http://localhost:4000/", "http://[::1]:4000/"];
  for (const target of own) assert.equal((await fetch(target)).status, 200, target);
  assert.deepEqual(pinned, [null, null, null]);
  const others = [
    "http://localhost:4001/",
    "http://127.0.0.1:5432/",
    "http://127.0.0.1/",
    "http://127.0.0.2:4000/",
    "http://hub.localhost:4000/",
    "https://10.0.0.1/",
    "https://10.0.0.1:4000/",
    "https://169.254.169.254/latest",
    "https://rebound.example/",
    "https://[fd00::1]/",
  ];
  for (const target of others) {
    assert.match(await refusal(fetch(target)), /unsafe_server: .*private network/, target);
  }
  assert.match(await refusal(fetch("http://10.0.0.1/")), /wanted https/);
  assert.deepEqual(asked, own);
  // What is public it may name, and the name is looked up as for a public server.
  assert.equal((await fetch("https://public.example/token")).status, 200);
  assert.deepEqual(pinned.at(-1), ["93.184.216.34"]);

  const inside = guard("https://10.0.0.1/mcp");
  assert.equal((await inside.fetch("https://10.0.0.1:443/token")).status, 200);
  assert.match(await refusal(inside.fetch("https://10.0.0.1:8443/")), /private network/);
  assert.match(await refusal(inside.fetch("https://10.0.0.2/")), /private network/);
});

Deno.test("the operator names other private origins", async () => {
  const privateOrigins = ["http://localhost:8080", "https://sso.internal", "http://127.0.0.1:*"];
  for (const server of ["http://127.0.0.1:4000/mcp", "https://public.example/mcp"]) {
    const { fetch } = guard(server, undefined, privateOrigins);
    const allowed = ["http://localhost:8080/x", "https://sso.internal/", "http://127.0.0.1:9/"];
    for (const target of allowed) assert.equal((await fetch(target)).status, 200, target);
    const refused = ["http://localhost:8081/", "https://127.0.0.1:9/", "https://10.0.0.1/"];
    for (const target of refused) {
      assert.match(await refusal(fetch(target)), /private network/, target);
    }
  }
});

Deno.test("nothing but https, and no credentials in an address", async () => {
  const { fetch, asked } = guard("https://public.example/mcp");
  for (const target of ["http://public.example/", "ftp://public.example/", "file:///etc/passwd"]) {
    assert.match(await refusal(fetch(target)), /unsafe_server: .*wanted https/, target);
  }
  const secret = await refusal(fetch("https://user:hunter22@public.example/a?code=hunter22"));
  assert.match(secret, /credentials/);
  assert.ok(!secret.includes("hunter22"));
  assert.deepEqual(asked, []);
});

Deno.test("redirects go no other way, and an answer ends", async () => {
  const to = (location: string) =>
    guard(
      "https://public.example/mcp",
      () => Promise.resolve(new Response(null, { status: 302, headers: { location } })),
    ).fetch;
  assert.match(
    await refusal(to("https://evil.example/?code=hunter22")("https://public.example/")),
    /redirects to https:\/\/evil\.example:/,
  );
  assert.match(await refusal(to("http://public.example/")("https://public.example/")), /redirects/);
  assert.equal((await to("/other")("https://public.example/")).status, 302);

  let sent = 0;
  let cancelled = false;
  const endless = guard("https://public.example/mcp", () =>
    Promise.resolve(
      new Response(
        new ReadableStream({
          pull(controller) {
            sent += 65536;
            controller.enqueue(new Uint8Array(65536));
          },
          cancel() {
            cancelled = true;
          },
        }),
      ),
    ));
  assert.match(await refusal(endless.fetch("https://public.example/")), /more than 262144 bytes/);
  assert.ok(cancelled && sent < 1_000_000);
  const down = guard("https://public.example/mcp", () => Promise.reject(new TypeError("hunter22")));
  const said = await refusal(down.fetch("https://public.example/"));
  assert.match(said, /upstream_unreachable/);
  assert.ok(!said.includes("hunter22"));
});
