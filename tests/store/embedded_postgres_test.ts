import assert from "node:assert/strict";
import postgres from "postgres";
import { SILENT_LOG } from "../../src/core/log.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/store/embedded_postgres.ts";
import { chooseClusterFolder, lockFolder } from "../../src/store/postgres_folder.ts";
import { childrenOf, parentOf, stateOf } from "../support/processes.ts";
import { query } from "../support/query.ts";
import { systemClock } from "../support/system_clock.ts";

/** True while the process runs; one that has ended and waits for its parent does not count. */
async function runs(pid: number): Promise<boolean> {
  return !["Z", null].includes(await stateOf(pid));
}

Deno.test("an embedded Postgres on one data folder", async (t) => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-embedded-" });
  await Deno.chmod(folder, 0o755);
  const dataDir = `${folder}/data`;
  const running = new Set<EmbeddedPostgres>();
  const start = async (warnings: string[] = []) => {
    const warn = (message: string, fields?: Record<string, unknown>) =>
      void warnings.push(`${message} ${JSON.stringify(fields)}`);
    const server = await startEmbeddedPostgres({
      dataDir,
      log: { ...SILENT_LOG, warn },
      clock: systemClock,
    });
    running.add(server);
    void server.exited.then(() => running.delete(server));
    return server;
  };
  const notes = (url: string) => query<{ text: string }>(url, "select text from note order by 1");

  try {
    let url = "";

    await t.step("the first start makes the cluster; secrets are the owner's alone", async () => {
      const server = await start();
      url = server.url;
      assert.equal(server.firstStart, true);
      assert.equal(await runs(server.pid), true);
      assert.equal(((await Deno.stat(`${dataDir}/password`)).mode ?? 0) & 0o777, 0o600);
      assert.equal(((await Deno.stat(server.dataDir)).mode ?? 0) & 0o777, 0o700);
      await query(url, "create table note (text text); insert into note values ('kept')");
      const wrong = new URL(url);
      wrong.password = "wrong";
      await assert.rejects(query(wrong.href, "select 1"), { code: "28P01" });
      const [role] = await query<{ super: boolean }>(
        url,
        "select rolsuper as super from pg_roles where rolname = current_user",
      );
      assert.equal(role?.super, false);
      await server.stop();
    });

    await t.step("stop ends Postgres and gives the folder free", async () => {
      const server = await start();
      assert.equal(server.firstStart, false);
      const held = postgres(server.url, { max: 1, onnotice() {}, onclose() {} });
      await held`select 1`;
      await Promise.all([server.stop(), server.stop()]);
      assert.deepEqual(await server.exited, { code: 0 });
      assert.equal(await runs(server.pid), false);
      await assert.rejects(
        Deno.connect({ hostname: "127.0.0.1", port: server.port }),
        Deno.errors.ConnectionRefused,
      );
      await held.end({ timeout: 0 });
      (await lockFolder(await Deno.realPath(dataDir))).release();
    });

    await t.step("address, password and data survive a restart", async () => {
      const server = await start();
      assert.equal(server.url, url);
      assert.deepEqual(await notes(url), [{ text: "kept" }]);
      await server.stop();
    });

    await t.step("a second owner is refused with the first one's process id", async () => {
      const server = await start();
      await assert.rejects(start(), {
        code: "invalid_configuration",
        message: new RegExp(`in use by another hub \\(process ${Deno.pid}\\).*DATABASE_URL`),
      });
      assert.deepEqual(await notes(server.url), [{ text: "kept" }]);
      await server.stop();
    });

    await t.step("two starts at once: one has the folder, the other is refused", async () => {
      const both = await Promise.allSettled([start(), start()]);
      assert.deepEqual(both.map((one) => one.status).sort(), ["fulfilled", "rejected"]);
      const refused = both.find((one) => one.status === "rejected");
      assert.equal(refused?.reason.code, "invalid_configuration");
      for (const one of both) if (one.status === "fulfilled") await one.value.stop();
    });

    await t.step("a taken port gives way to another", async () => {
      const server = await start();
      await server.stop();
      using _other = Deno.listen({ hostname: "127.0.0.1", port: server.port });
      const moved = await start();
      assert.notEqual(moved.port, server.port);
      assert.deepEqual(await notes(moved.url), [{ text: "kept" }]);
      await moved.stop();
    });

    await t.step("a postmaster that was killed: said by exited, data whole", async () => {
      const killed = await start();
      await query(killed.url, "insert into note values ('committed')");
      Deno.kill(killed.pid, "SIGKILL");
      assert.notEqual((await killed.exited).code, 0);
      await killed.stop();
      const pidFile = await Deno.readTextFile(`${killed.dataDir}/postmaster.pid`);
      assert.equal(pidFile.split("\n")[0], String(killed.pid));
      const server = await start();
      assert.notEqual(server.pid, killed.pid);
      assert.deepEqual(await notes(server.url), [{ text: "committed" }, { text: "kept" }]);
      await server.stop();
    });

    await t.step(
      "a postmaster that outlived its supervisor is stopped by the next start",
      async () => {
        const orphan = await start();
        const supervisor = await parentOf(orphan.pid) ?? assert.fail();
        const children = await childrenOf(supervisor);
        for (const pid of [supervisor, ...children]) {
          if (pid !== orphan.pid) Deno.kill(pid, "SIGKILL");
        }
        await orphan.exited;
        await orphan.stop();
        assert.equal(await runs(orphan.pid), true);
        const warnings: string[] = [];
        const server = await start(warnings);
        assert.match(warnings.join("\n"), new RegExp(`stopped ${orphan.pid}`));
        assert.equal(await runs(orphan.pid), false);
        assert.equal((await notes(server.url)).length, 2);
        await server.stop();
      },
    );

    await t.step("a left-over postmaster.pid whose number a foreign process has now", async () => {
      const killed = await start();
      Deno.kill(killed.pid, "SIGKILL");
      await killed.exited;
      await killed.stop();
      const path = `${killed.dataDir}/postmaster.pid`;
      const [, ...rest] = (await Deno.readTextFile(path)).split("\n");
      const foreign = new Deno.Command("sleep", { args: ["600"] }).spawn();
      try {
        await Deno.writeTextFile(path, [foreign.pid, ...rest].join("\n"));
        const warnings: string[] = [];
        const server = await start(warnings);
        assert.match(warnings.join("\n"), new RegExp(`stale ${foreign.pid}`));
        assert.equal(await runs(foreign.pid), true);
        assert.equal((await notes(server.url)).length, 2);
        await server.stop();
      } finally {
        foreign.kill("SIGKILL");
        await foreign.status;
      }
    });

    await t.step("an empty postmaster.pid, as a full disk leaves it", async () => {
      await Deno.writeTextFile(`${dataDir}/data/postmaster.pid`, "");
      const server = await start();
      assert.equal((await notes(server.url)).length, 2);
      await server.stop();
    });

    await t.step("data of another major version is refused, and stays", async () => {
      const path = `${dataDir}/data/PG_VERSION`;
      const version = await Deno.readTextFile(path);
      await Deno.writeTextFile(path, "15\n");
      await assert.rejects(start(), {
        code: "invalid_configuration",
        message: /written by Postgres 15/,
      });
      await Deno.writeTextFile(path, version);
    });

    await t.step(
      "a start that fails says why in Postgres' words, and can be repeated",
      async () => {
        const path = `${dataDir}/data/postgresql.conf`;
        const settings = await Deno.readTextFile(path);
        await Deno.writeTextFile(path, `${settings}\nno_such_setting = 1\n`);
        await assert.rejects(start(), { code: "internal_error", message: /no_such_setting/ });
        await Deno.writeTextFile(path, settings);
        const server = await start();
        assert.equal((await notes(server.url)).length, 2);
        await server.stop();
      },
    );

    await t.step("a first start that died half-way is begun anew", async () => {
      await Deno.mkdir(`${folder}/half/data.new/base`, { recursive: true });
      await Deno.writeTextFile(`${folder}/half/data.new.password`, "x");
      await Deno.writeTextFile(`${folder}/half/password`, "x");
      // The copy of the programs, so that it is not made twice.
      await Deno.rename(`${dataDir}/pg`, `${folder}/half/pg`);
      const server = await startEmbeddedPostgres({
        dataDir: `${folder}/half`,
        log: SILENT_LOG,
        clock: systemClock,
      });
      running.add(server);
      assert.equal(server.firstStart, true);
      assert.deepEqual(await query(server.url, "select 1 as one"), [{ one: 1 }]);
      await server.stop();
      running.delete(server);
    });
  } finally {
    for (const server of running) await server.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test({
  name: "as root, a data folder that Postgres' user cannot reach moves the cluster, always alike",
  ignore: Deno.uid() !== 0,
  async fn() {
    const closed = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-closed-" });
    const account = { name: "nobody", uid: 65534, gid: 65534 };
    const data = `${closed}/data`;
    await Deno.mkdir(data, { mode: 0o711 });
    const first = await chooseClusterFolder(data, account);
    try {
      assert.equal(first.moved, true);
      assert.match(first.folder, /^\/var\/lib\/loophub\/[0-9a-f]{12}$/);
      assert.deepEqual(await chooseClusterFolder(data, account), first);
      assert.deepEqual(await chooseClusterFolder(data, null), { folder: data, moved: false });
      await Deno.chmod(closed, 0o711);
      assert.deepEqual(await chooseClusterFolder(data, account), { folder: data, moved: false });
    } finally {
      await Deno.remove(first.folder, { recursive: true });
      await Deno.remove(closed, { recursive: true });
    }
  },
});
