import assert from "node:assert/strict";
import { VERSION } from "../../src/core/version.ts";
import { openListenConnection } from "../../src/store/listen_connection.ts";
import { command, startHubProcess } from "../support/hub_process.ts";
import { hasProgram } from "../support/programs.ts";
import { query } from "../support/query.ts";
import { eventually } from "../support/test_hub.ts";

/** True when something takes connections there. */
async function answers(psql: string): Promise<boolean> {
  try {
    const { port } = new URL(psql);
    (await Deno.connect({ hostname: "127.0.0.1", port: Number(port) })).close();
    return true;
  } catch {
    return false;
  }
}

/** What a shell prints when these lines are pasted into it. */
async function paste(lines: string): Promise<string> {
  const shell = new Deno.Command("sh", { args: ["-ec", lines], stderr: "inherit" });
  const { code, stdout } = await shell.output();
  assert.equal(code, 0);
  return new TextDecoder().decode(stdout);
}

Deno.test("the hub as a process", async (t) => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-process-" });
  await Deno.chmod(folder, 0o755);
  const models = async (url: string, key: string | null) => {
    const answer = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
    return { status: answer.status, body: await answer.json() };
  };
  try {
    let key: string | null = null;
    await t.step("start: a port in use is found before the data folder is touched", async () => {
      using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      const failed = await command(folder, ["start"], { LOOPHUB_PORT: String(taken.addr.port) });
      assert.equal(failed.code, 3, failed.err);
      assert.match(failed.err, /another program uses it/);
      await assert.rejects(Deno.stat(`${folder}/data`), Deno.errors.NotFound);
    });

    await t.step("start: a data folder that is a file is one clear line", async () => {
      const file = `${folder}/file`;
      await Deno.writeTextFile(file, "");
      const failed = await command(folder, ["start"], { LOOPHUB_DATA_DIR: file });
      assert.equal(failed.code, 3, failed.err);
      assert.match(failed.err.trim(), /^The data folder \S+ cannot be used: [^\n]+$/);
    });

    await t.step("commands and a start that cannot listen make no key", async () => {
      assert.equal((await command(folder, ["migrate"])).code, 0);
      assert.equal((await command(folder, ["run", "Hello"])).code, 0);
      using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      const failed = await command(folder, ["start"], { LOOPHUB_PORT: String(taken.addr.port) });
      assert.equal(failed.code, 3, failed.err);
      assert.match(failed.err, /another program uses it/);
      assert.equal((await command(folder, ["keys", "list"])).out, "");
    });

    await t.step(
      "the first start prints address, database and a key; Ctrl-C leaves nothing",
      async () => {
        const hub = await startHubProcess(folder);
        key = await eventually(() => hub.key() ?? undefined);
        const listed = await models(hub.url, key);
        assert.equal(listed.status, 200);
        assert.deepEqual(listed.body.data.map((model: { id: string }) => model.id), [
          "demo/talk",
          "demo/tools",
          "agent/default",
        ]);
        assert.equal(await answers(hub.psql), true);
        if (hasProgram("curl")) {
          const pasted = await paste(hub.out().replace(/^[\s\S]*?(?=^export )/m, ""));
          assert.match(pasted, /"model":"talk"[\s\S]*data: \[DONE\][\s\S]*data: \[DONE\]/);
          const inputs = pasted.matchAll(
            /"tool-input-available".*"toolName":"([^"]+)","input":(.*?),"dy/g,
          );
          assert.deepEqual([...inputs].map(([, name, input]) => [name, input]), [
            ["hub.calculate", '{"expression":"6*7"}'],
            ["hub.current_time", "{}"],
          ]);
        }
        assert.equal(await hub.end("SIGINT"), 0);
        assert.equal(await answers(hub.psql), false);
      },
    );

    await t.step(
      "an embedded Postgres that is killed comes back; known keys are served meanwhile",
      async () => {
        const hub = await startHubProcess(folder);
        const pidFile = `${folder}/data/data/postmaster.pid`;
        const pid = Number((await Deno.readTextFile(pidFile)).split("\n")[0]);
        assert.equal((await models(hub.url, key)).status, 200);
        Deno.kill(pid, "SIGKILL");
        assert.equal((await models(hub.url, key)).status, 200);
        const isReady = async () => {
          const answer = await fetch(`${hub.url}/readyz`);
          await answer.body?.cancel();
          const line = (await Deno.readTextFile(pidFile).catch(() => "")).split("\n")[0];
          return answer.ok && Number(line) !== pid ? true : null;
        };
        await eventually(isReady, 60_000);
        assert.equal((await models(hub.url, key)).status, 200);
        assert.match(hub.err(), /The embedded Postgres has ended and is started again/);
        assert.equal(await hub.end("SIGINT"), 0);
      },
    );

    await t.step("the second start keeps the key; kill -9 leaves nothing either", async () => {
      const hub = await startHubProcess(folder);
      assert.equal(hub.key(), null);
      assert.equal((await models(hub.url, key)).status, 200);
      const [row] = await query<{ count: string }>(
        hub.psql,
        "select count(*) from hub.session_overview",
      );
      assert.equal(row?.count, hasProgram("curl") ? "2" : "1");
      await hub.end("SIGKILL");
      await eventually(async () => await answers(hub.psql) ? null : true);
    });

    await t.step("keys are made, listed and revoked, beside a hub that runs too", async () => {
      assert.equal((await command(folder, ["keys"])).code, 2);
      assert.equal((await command(folder, ["keys", "create", "x", "--role", "king"])).code, 2);
      assert.equal((await command(folder, ["keys", "revoke", `key_${"0".repeat(32)}`])).code, 1);
      const before = await command(folder, ["keys", "create", "before"]);
      assert.match(before.out, /^lh_\S+\n$/);
      const hub = await startHubProcess(folder);
      const heard: string[] = [];
      const connection = openListenConnection(hub.psql, {
        onPayload: (payload) => heard.push(payload),
        onClosed() {},
      });
      try {
        await connection.ready;
        const made = await command(folder, ["keys", "create", "beside", "--role", "admin"]);
        assert.equal(made.code, 0, made.err);
        for (const { out } of [before, made]) {
          assert.equal((await models(hub.url, out.trim())).status, 200);
        }
        const keyId = /key_[0-9a-f]{32}/.exec(made.err)?.[0] ?? "";
        assert.equal((await command(folder, ["keys", "revoke", keyId])).code, 0);
        const listed = (await command(folder, ["keys", "list"])).out.trim().split("\n");
        assert.deepEqual(listed.map((line) => line.replace(/^\S+\s+/, "").split(/\s+/)), [
          ["admin", "valid", "first"],
          ["user", "valid", "before"],
          ["admin", "revoked", "beside"],
        ]);
        await eventually(async () => {
          return (await models(hub.url, made.out.trim())).status === 401 ? true : undefined;
        });
        // Told at once: once for the new key, once for its end.
        const told = () => heard.filter((payload) => payload === '{"keys":true}').length;
        await eventually(() => told() >= 2 ? true : undefined);
        assert.equal(told(), 2);
      } finally {
        await connection.close();
        assert.equal(await hub.end("SIGINT"), 0);
      }
    });

    await t.step("a run from the command line: words to stdout, accounting to a file", async () => {
      const file = `${folder}/accounting.jsonl`;
      const prompt = 'Use calculate with "6*7"';
      const done = await command(folder, ["run", prompt, "--accounting", file]);
      assert.equal(done.code, 0, done.err);
      assert.match(done.out, /"result":42/);
      assert.match(done.err, /^tool hub\.calculate \{"expression":"6\*7"\}$/m);
      assert.match(done.err, /^ {2}hub\.calculate => \{.*"result":42\}$/m);
      const lines = (await Deno.readTextFile(file)).trim().split("\n").map((line) =>
        JSON.parse(line)
      );
      assert.deepEqual(lines.map((line) => line.type), ["llm", "tool", "llm", "run"]);
      assert.equal(lines[1].charactersIn, JSON.stringify({ expression: "6*7" }).length);
      assert.ok(lines[0].charactersIn > prompt.length && lines[0].charactersOut > 0);
      assert.ok(lines[0].totalTokens > 0 && "costMicros" in lines[0]);
    });

    await t.step("a run beside a hub that runs is in that hub's database", async () => {
      const hub = await startHubProcess(folder);
      try {
        const done = await command(folder, ["run", "Hello"]);
        assert.equal(done.code, 0, done.err);
        const sessionId = /session (ses_\S+)/.exec(done.err)?.[1];
        const seen = await fetch(`${hub.url}/v1/sessions/${sessionId}/messages`, {
          headers: { authorization: `Bearer ${key}` },
        });
        assert.equal((await seen.json()).data.length, 2);
        assert.equal(await answers(hub.psql), true);
      } finally {
        assert.equal(await hub.end("SIGTERM"), 0);
      }
    });

    await t.step("mistakes have their exit codes", async () => {
      assert.equal((await command(folder, ["nonsense"])).code, 2);
      for (
        const args of [["--help"], ["-h"], ["help"], ["run", "--help"], ["runs", "-h"], [
          "help",
          "run",
        ]]
      ) {
        const help = await command(folder, args);
        assert.equal(help.code, 0, help.err);
        assert.match(help.out, /loophub runs? /);
        assert.equal(help.out.includes("loophub start"), args[0] === args.at(-1));
      }
      for (const word of ["version", "--version", "-V"]) {
        const version = await command(folder, [word]);
        assert.deepEqual([version.code, version.out], [0, `loophub ${VERSION}\n`], version.err);
      }
      const twice = await command(folder, ["runs", "watch", "--tail"]);
      assert.deepEqual([twice.code, /--tail[^]*See loophub runs --help$/m.test(twice.err)], [
        2,
        true,
      ]);
      assert.equal((await command(folder, ["run"])).code, 2);
      await Deno.writeTextFile(`${folder}/bad.json`, '{"server":{"maxBodyBytes":"x","hots":1}}');
      const bad = await command(folder, ["check", "--config", `${folder}/bad.json`]);
      assert.equal(bad.code, 3);
      assert.match(bad.err, /server\.maxBodyBytes[\s\S]*server\.hots/);
      assert.match((await command(folder, ["check"])).out, /demo/);
      // Found when everything else runs already.
      await Deno.writeTextFile(`${folder}/far.json`, '{"server":{"host":"203.0.113.9","port":0}}');
      const far = await command(folder, ["start", "--config", `${folder}/far.json`]);
      assert.equal(far.code, 3, far.err);
      assert.deepEqual(far.err.trim().split("\n").filter((line) => !line.includes('"info"')), [
        "Cannot listen on 203.0.113.9:0: Cannot assign requested address (os error 99)",
      ]);
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
