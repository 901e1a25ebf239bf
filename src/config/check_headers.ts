import { CONNECTION_HEADERS } from "../core/connection_headers.ts";
import type { ConfigPath } from "./config_path.ts";
import type { ProblemList } from "./problem.ts";

/** Refuses configured headers that only the hub can set, are given twice or do not fit into one line. */
export function checkHeaders(
  headers: Readonly<Record<string, string>>,
  { path, own, problems }: {
    path: ConfigPath;
    /** Further names that only the hub can set, in lower case. */
    own: RegExp;
    problems: ProblemList;
  },
): void {
  const spellings = new Map<string, string>();
  for (const [header, value] of Object.entries(headers)) {
    const place = [...path, header];
    const name = header.toLowerCase();
    const before = spellings.get(name);
    spellings.set(name, header);
    if (CONNECTION_HEADERS.has(name) || own.test(name)) {
      problems.add(place, { got: "a header that the hub sets itself", wanted: "another header" });
    } else if (before !== undefined) {
      problems.add(place, {
        got: `the header ${before} in another spelling`,
        wanted: "each header once, as names of headers have no case",
      });
    } else if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
      problems.add(place, {
        got: "a text with a line break or a control character",
        wanted: "one line of text",
      });
    }
  }
}
