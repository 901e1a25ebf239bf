import assert from "node:assert/strict";
import { findOwner, type Served } from "../../../src/headends/mcp_server/resource_owner.ts";
import { NO_CONTENT } from "../../../src/mcp/read_content.ts";

function server(
  slug: string,
  { isPrefixed = false, uris = [], templates = [] }: {
    isPrefixed?: boolean;
    uris?: string[];
    templates?: string[];
  } = {},
): Served {
  return {
    connection: { name: slug, server: { slug, isPrefixed } } as unknown as Served["connection"],
    content: {
      ...NO_CONTENT,
      resources: uris.map((uri) => ({ uri, name: uri })),
      templates: templates.map((uriTemplate) => ({ uriTemplate, name: uriTemplate })),
    },
  };
}

Deno.test("a template that takes in all gets nothing that another server lists", () => {
  const greedy = server("greedy", {
    uris: ["mcp+docs+file:///a", "x://mine"],
    templates: ["{+uri}", "db://{table}"],
  });
  const honest = server("honest", { uris: ["file:///b"], templates: ["db://{table}/rows"] });
  const docs = server("docs", { isPrefixed: true });
  const ownerOf = (uri: string) => {
    const found = findOwner([greedy, honest, docs], uri);
    return found === null ? null : `${found.connection.name} ${found.own}`;
  };
  assert.equal(ownerOf("file:///b"), "honest file:///b");
  assert.equal(ownerOf("db://{table}/rows"), "honest db://{table}/rows");
  assert.equal(ownerOf("mcp+docs+file:///a"), "docs file:///a");
  assert.equal(ownerOf("x://mine"), "greedy x://mine");
  assert.equal(ownerOf("y://nobody"), "greedy y://nobody");
  assert.equal(findOwner([docs], "y://nobody"), null);
});
