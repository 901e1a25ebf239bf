import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { eventually } from "../support/test_hub.ts";
import { type McpRig, withServers } from "./rig.ts";

interface Seen {
  http?: string;
  method?: string;
  id?: number | string | null;
  headers?: Record<string, string>;
  left?: boolean;
}

const program = new URL("../fixtures/mcp-servers/modern.ts", import.meta.url).pathname;
const root = new URL("../../", import.meta.url).pathname;

/** A server in a process of its own, which can be replaced by one of the other era at the same address. */
async function withPeer(
  body: (peer: {
    url: string;
    seen(method?: string): Promise<Seen[]>;
    forget(): Promise<void>;
    become(era: "modern" | "legacy"): Promise<void>;
  }) => Promise<void>,
): Promise<void> {
  const log = await Deno.makeTempFile({ dir: "/tmp", prefix: "loophub-mcp-" });
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const port = String((listener.addr as Deno.NetAddr).port);
  listener.close();
  let child: Deno.ChildProcess | null = null;
  const end = async () => {
    child?.kill("SIGKILL");
    await child?.status;
  };
  const become = async (era: "modern" | "legacy") => {
    await end();
    child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", `--config=${root}deno.json`, program, port, log, era],
      stdout: "null",
      stderr: "inherit",
    }).spawn();
    await eventually(async () => {
      const up = await Deno.connect({ hostname: "127.0.0.1", port: Number(port) }).catch(() =>
        null
      );
      up?.close();
      return up;
    });
  };
  try {
    await become("modern");
    await body({
      url: `http://127.0.0.1:${port}/mcp`,
      become,
      forget: () => Deno.truncate(log),
      async seen(method) {
        const text = await Deno.readTextFile(log);
        const all = text.split("\n").filter((line) => line !== "").map((line): Seen =>
          JSON.parse(line)
        );
        return method === undefined ? all : all.filter((seen) => seen.method === method);
      },
    });
  } finally {
    await end();
    await Deno.remove(log);
  }
}

const answer = (name: string, input: JsonObject = {}) => ({
  content: [{ type: "text", text: `${name} ${JSON.stringify(input)}` }],
});

Deno.test("a server of 2026-07-28 is asked without sessions, with headers as its tools want them", async () => {
  await withPeer(async ({ url, seen, forget }) => {
    await withServers({ far: { url } }, async ({ mcp, call, connection, progressed }) => {
      await mcp.settled(60_000);
      assert.deepEqual(connection("far").state, { kind: "ready" });
      assert.deepEqual(mcp.tools.map(({ name }) => name), [
        "far__cut",
        "far__endless",
        "far__near",
        "far__slow",
      ]);
      assert.deepEqual(connection("far").listing?.dropped, [
        { name: "wrong", reason: "its x-mcp-header is no name of a header" },
      ]);
      const hello = (await seen()).map(({ method }) => method);
      assert.equal(hello.filter((method) => method === "server/discover").length, 1);
      assert.ok(!hello.includes("initialize"));

      await forget();
      const input = { region: "zürich", deep: { n: 7 } };
      assert.deepEqual(await call("far__near", input), answer("near", input));
      const [{ headers } = assert.fail()] = await seen("tools/call");
      assert.equal(headers?.["mcp-param-region"], "=?base64?esO8cmljaA==?=");
      assert.equal(headers?.["mcp-param-deep-n"], "7");
      assert.equal(headers?.["mcp-name"], "near");
      assert.equal(headers?.["mcp-method"], "tools/call");
      assert.equal(headers?.["mcp-protocol-version"], "2026-07-28");

      assert.deepEqual(await call("far__slow"), answer("slow"));
      assert.deepEqual(progressed.at(-1), { progress: 3, total: 3 });

      const stop = new AbortController();
      const told = progressed.length;
      const endless = call("far__endless", {}, stop.signal);
      await eventually(() => progressed.length > told || null);
      stop.abort(new Error("not wanted"));
      await assert.rejects(endless, /not wanted/);
      await eventually(async () => (await seen()).some(({ left }) => left) || null);
      assert.deepEqual(await call("far__near"), answer("near"));
      for (const { headers } of await seen()) {
        assert.equal(headers?.["mcp-session-id"], undefined);
      }
    });
  });
});

Deno.test("a server that is replaced by one of another era is spoken to as that one wants, and its verdict is kept", async () => {
  await withPeer(async ({ url, seen, forget, become }) => {
    await withServers({ far: { url, effect: { "*": "pure" } } }, async (rig: McpRig) => {
      const { mcp, call, connection } = rig;
      await mcp.settled(60_000);
      assert.deepEqual(await call("far__near"), answer("near"));

      await become("legacy");
      await forget();
      assert.deepEqual(await call("far__near"), answer("near"));
      assert.equal((await seen("initialize")).length, 1);

      await forget();
      connection("far").rest();
      assert.deepEqual(await call("far__near"), answer("near"));
      assert.deepEqual(
        [(await seen("server/discover")).length, (await seen("initialize")).length],
        [0, 1],
      );

      await become("modern");
      await forget();
      assert.deepEqual(await call("far__near"), answer("near"));
      assert.equal((await seen("server/discover")).length, 1);
    });
  });
});

for (const era of ["modern", "legacy"] as const) {
  Deno.test(`a call whose answer was cut is made once more under a new id where its tool only reads, and no other is (${era})`, async () => {
    await withPeer(async ({ url, seen, forget, become }) => {
      for (
        const [effect, outcome, times] of [["pure", "succeeded", 2], [
          "effect",
          "unknown",
          1,
        ]] as const
      ) {
        await become(era);
        await withServers(
          { far: { url, effect: { "*": effect } } },
          async ({ mcp, call, facts }) => {
            await mcp.settled(60_000);
            await forget();
            const called = call("far__cut");
            if (effect === "pure") assert.deepEqual(await called, answer("cut"));
            else await assert.rejects(called, /ended during the call .*do not assume/);
            const ids = (await seen("tools/call")).map(({ id }) => id);
            assert.equal(ids.length, times);
            assert.equal(new Set(ids).size, times);
            assert.deepEqual(facts.map((fact) => fact.outcome), [outcome]);
          },
        );
      }
    });
  });
}
