import assert from "node:assert/strict";
import postgres from "postgres";
import { assertCanaries, foundIn } from "../../support/canaries.ts";
import { askEverything } from "../../support/canary_inputs.ts";
import { withCanaries } from "../../support/canary_rig.ts";
import { command } from "../../support/hub_process.ts";
import { descendantsOf, filesOf } from "../../support/machine_view.ts";

Deno.test("a secret in any input is in no output but its home", async (t) => {
  await withCanaries(async (rig) => {
    const all = { ...rig.configured, ...await askEverything(rig) };
    const { hub, folder, env, key } = rig;
    const none = (place: string, text: string) => assertCanaries(place, text, all);

    await t.step("answers, streams and errors", () => {
      assert.ok(rig.answers.length > 150);
      for (const said of rig.answers) none(`the answer to ${said.split("\n")[0]}`, said);
    });

    await t.step("what providers were sent", () => {
      // Each provider gets its own credentials, in fields, and nothing in bodies.
      const homes: Record<string, readonly string[]> = {
        UP_KEY: ["UP_KEY", "UP_HEADER"],
        literalKey: ["literalKey", "literalHeader"],
        storedKey: ["storedKey", "storedHeader"],
      };
      assert.ok(rig.upstream.requests.length > 40);
      for (const { path, headers, text } of rig.upstream.requests) {
        const fields = JSON.stringify(headers);
        const [owner = ""] = foundIn(fields, all).filter((name) => name in homes);
        assertCanaries(`the fields of ${path}`, fields, all, homes[owner] ?? []);
        none(`the body of ${path}`, `${path} ${text}`);
      }
    });

    await t.step("what MCP servers were sent", () => {
      const own = ["MCP_URL", "MCP_HEADER", "literalMcpHeader"];
      const mine = rig.far.seen.filter((text) => text.includes("access_token"));
      const open = rig.far.seen.filter((text) => !text.includes("access_token"));
      assertCanaries("the requests to far", mine.join("\n"), all, own);
      assertCanaries("the requests to open", open.join("\n"), all, ["handed", "handedInBody"]);
      const tokens = foundIn(rig.oauth.headers.join("\n"), all);
      assert.ok(tokens.length > 0 && tokens.every((name) => name.startsWith("oauth")), `${tokens}`);
    });

    await t.step("/metrics", async () => {
      const text = await (await fetch(`${hub.url}/metrics`)).text();
      assert.match(text, /loophub_/);
      none("/metrics", text);
    });

    await t.step("rows of all tables", async () => {
      const sql = postgres(hub.psql, { max: 1 });
      try {
        const tables = await sql<{ name: string }[]>`
          select relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where n.nspname = 'hub' and relkind in ('r', 'p', 'm')`;
        assert.ok(tables.length > 30);
        const filled = new Set<string>();
        for (const { name } of tables) {
          const rows = await sql`select t::text as text from hub.${sql(name)} t`;
          if (rows.length > 0) filled.add(name);
          for (const { text } of rows) none(`a row of ${name}`, text);
        }
        for (
          const name of [
            "usage",
            "api_keys",
            "secrets",
            "mcp_grants",
            "run_events",
            "messages",
            "tool_calls",
          ]
        ) {
          assert.ok(filled.has(name), `${name} is empty: ${[...filled]}`);
        }
      } finally {
        await sql.end();
      }
    });

    await t.step("processes", async () => {
      const given = Object.keys(rig.configured).filter((name) => name in env);
      const atHub = "databasePassword" in all ? [...given, "databasePassword"] : given;
      const tattler = ["MCP_ARG", "literalMcpArg"];
      const ofTattler = ["MCP_ENV", "literalMcpEnv"];
      let programs = 0;
      for (const { pid, environ, cmdline } of await descendantsOf(hub.pid)) {
        if (pid === hub.pid) {
          assertCanaries("the hub's environment, which its operator gave it", environ, all, atHub);
          none("the hub's arguments", cmdline);
          continue;
        }
        // What is started for a server has the variables that are for it, and nothing else.
        const strays = foundIn(environ, all).filter((name) => !ofTattler.includes(name));
        assert.deepEqual(strays, [], `the environment of ${cmdline}`);
        if (cmdline.includes("tattler.mjs")) {
          programs++;
          // Arguments of a program are what its operator wrote, for all of the machine to see.
          assertCanaries("the arguments of a program", cmdline, all, tattler);
        } else none("arguments", cmdline);
      }
      assert.ok(programs > 0);
    });

    await t.step("traces", async () => {
      await rig.receiver.find(({ name }) => name.includes("/api/chat"));
      assert.ok(rig.receiver.spans.length > 100);
      // The runtime's own spans of `fetch` have whole addresses: docs/operations.md says so.
      assertCanaries("a trace", rig.receiver.text(), all, ["MCP_URL"]);
      const ours = rig.receiver.spans.map((span) => JSON.stringify(span)).join("\n");
      none("a span of the hub", ours);
    });

    await t.step("what other commands print", async () => {
      const commands = [["check"], ["providers", "list"], ["keys", "list"], ["runs"], [
        "mcp",
        "status",
      ]];
      for (const args of commands) {
        const { out, err } = await command(folder, args, env);
        assert.ok(out.length > 0, `${args}: ${err}`);
        none(`loophub ${args.join(" ")}`, `${out}\n${err}`);
      }
    });

    assert.equal(await rig.end(), 0);
    await t.step("stdout, stderr and the log at its most talkative", () => {
      assert.match(hub.err(), /"level":"debug"/);
      for (const line of [...hub.out().split("\n"), ...hub.err().split("\n")]) none("a line", line);
    });

    await t.step("files of the data folder", async () => {
      const files = await filesOf(`${folder}/data`);
      assert.ok(files.length > 0);
      for (const { path, text, mode } of files) {
        const isFirstKey = path === `${folder}/data/first-key`;
        assertCanaries(path, text, all, isFirstKey ? ["adminKey"] : []);
        assert.equal(mode & 0o077, 0, `${path} has mode ${mode.toString(8)}`);
      }
      assert.equal(await Deno.readTextFile(`${folder}/data/first-key`), `${key}\n`);
      for (const { path, text } of await filesOf(`${folder}/ws`)) none(path, text);
    });
  });
});
