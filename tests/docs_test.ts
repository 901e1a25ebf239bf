import assert from "node:assert/strict";
import { withDatabase } from "./support/postgres.ts";

const root = new URL("../", import.meta.url);
const read = (path: string) => Deno.readTextFile(new URL(path, root));

Deno.test("docs/api.md lists exactly the routes of the code", async () => {
  const inCode: string[] = ["GET /openapi.json"];
  for (const folder of ["src/http/routes/", "src/headends/mcp_server/"]) {
    for await (const entry of Deno.readDir(new URL(folder, root))) {
      const text = await read(`${folder}${entry.name}`);
      for (const match of text.matchAll(/method: "(\w+)",\s+path: "([^"]+)"/g)) {
        inCode.push(`${match[1]} ${match[2]}`);
      }
    }
  }
  const inDocs = [...(await read("docs/api.md")).matchAll(/^\| `(\w+ \/[^`]*)`/gm)].map((m) =>
    m[1]
  );
  assert.deepEqual(inDocs.toSorted(), inCode.toSorted());
});

Deno.test("docs/operations.md has a query for each view", async () => {
  const docs = await read("docs/operations.md");
  const views = new Set<string>();
  for await (const { name } of Deno.readDir(new URL("migrations/", root))) {
    const text = await read(`migrations/${name}`);
    for (const [, view = ""] of text.matchAll(/create (?:or replace )?view (hub\.\w+)/g)) {
      views.add(view);
    }
  }
  assert.ok(views.size >= 11);
  for (const view of views) assert.ok(docs.includes(`from ${view}`), `${view} has no query`);
});

Deno.test("the queries of docs/operations.md work as they stand", async () => {
  const docs = await read("docs/operations.md");
  const queries = [...docs.matchAll(/(?<=`|```sql\n)select [^`;]+;/g)].map(([query]) => query);
  assert.ok(queries.length >= 6);
  await withDatabase(async (db) => {
    for (const query of queries) {
      await db.within(db.read.unsafe(query.replaceAll("_…", `_${"0".repeat(32)}`)));
    }
  });
});

Deno.test("docs/cli.md lists the exit codes of the code", async () => {
  const codes = [...(await read("src/cli/exit_codes.ts")).matchAll(/: (\d+),/g)].map((m) => m[1]);
  const docs = [...(await read("docs/cli.md")).matchAll(/^\| (\d+)\s+\|/gm)].map((m) => m[1]);
  assert.deepEqual(docs, codes);
});

Deno.test("every relative link in the documents leads somewhere", async () => {
  const files = ["README.md", "AGENTS.md"];
  for await (const entry of Deno.readDir(new URL("docs/", root))) {
    if (entry.name.endsWith(".md")) files.push(`docs/${entry.name}`);
  }
  for (const file of files) {
    for (const [, target] of (await read(file)).matchAll(/\]\(([^)#:]+)[^):]*\)/g)) {
      await Deno.stat(new URL(target ?? "", new URL(file, root)));
    }
  }
});
