import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { startEmbeddedPostgres } from "../../src/store/embedded_postgres.ts";
import { toFolderProblem } from "../../src/store/folder_problem.ts";
import { loadMasterKey } from "../../src/store/master_key.ts";
import { systemClock } from "../support/system_clock.ts";

const randomBytes = (length: number) => new Uint8Array(length);

Deno.test("toFolderProblem: one line for what the operating system refuses", () => {
  const full = Object.assign(new Error("No space left on device (os error 28)"), {
    code: "ENOSPC",
  });
  const problem = toFolderProblem(full, "/data/hub");
  assert.ok(problem instanceof HubError);
  assert.equal(problem.code, "invalid_configuration");
  assert.match(
    problem.message,
    /^The data folder \/data\/hub cannot be used: there is no space left/,
  );
  const refused = (code: string) =>
    toFolderProblem(Object.assign(new Error("refused"), { code }), "/data/hub");
  for (const code of ["EACCES", "EPERM", "EROFS", "EDQUOT", "EIO", "ELOOP"]) {
    const error = refused(code);
    assert.ok(error instanceof HubError && !error.message.includes("\n"), code);
  }
  const other = new Error("a mistake of the hub");
  assert.equal(toFolderProblem(other, "/data/hub"), other);
});

Deno.test("startEmbeddedPostgres, loadMasterKey: a data folder that is a file", async () => {
  const file = await Deno.makeTempFile({ dir: "/tmp" });
  try {
    for (const dataDir of [file, `${file}/below`]) {
      const options = { dataDir, log: SILENT_LOG, clock: systemClock };
      const expected = {
        code: "invalid_configuration",
        message: new RegExp(`^The data folder ${dataDir} cannot be used: it.* is a file`),
      };
      await assert.rejects(startEmbeddedPostgres(options), expected);
      await assert.rejects(loadMasterKey({ given: undefined, dataDir, randomBytes }), expected);
    }
  } finally {
    await Deno.remove(file);
  }
});
