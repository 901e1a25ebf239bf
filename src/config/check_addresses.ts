import { quoteGot } from "./describe_got.ts";
import type { ProblemList } from "./problem.ts";
import type { Config } from "./schema.ts";

const HOST_WITH_PORT = /^(\[[0-9a-f:.]+\]|[a-z0-9]([a-z0-9._-]*[a-z0-9])?)(:\d{1,5})?$/i;
const IPV6 = /^[0-9a-f:.]*:[0-9a-f:.]*:[0-9a-f:.]*$/i;

/** Checks the forms of what the hub listens on and of the URLs of its database. */
export function checkAddresses(
  { server, database }: Pick<Config, "server" | "database">,
  problems: ProblemList,
): void {
  if (!IPV6.test(server.host) && !/^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$/i.test(server.host)) {
    problems.add(["server", "host"], {
      got: quoteGot(server.host),
      wanted: "an address or a host name without scheme, port and brackets",
    });
  }
  for (const [index, host] of (server.trustedHosts ?? []).entries()) {
    if (HOST_WITH_PORT.test(host)) continue;
    problems.add(["server", "trustedHosts", index], {
      got: quoteGot(host),
      wanted: "a host or host:port as the Host header has it",
    });
  }
  for (const name of ["url", "directUrl"] as const) {
    const text = database[name];
    if (text === undefined || isPostgresUrl(text)) continue;
    problems.add(["database", name], {
      got: `a text of ${text.length} characters`,
      wanted: "a URL that begins with postgres:// or postgresql://, its password percent-encoded",
    });
  }
}

function isPostgresUrl(text: string): boolean {
  return /^postgres(ql)?:\/\//.test(text) && URL.canParse(text);
}
