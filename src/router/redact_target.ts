import { HIDDEN_ADDRESS } from "../core/hide_addresses.ts";
import type { Target } from "../providers/target.ts";
import type { Redact } from "../wire/provider_text.ts";

/** Names of one plain word are also words of sentences. */
const IS_TELLING = /[.\d-]/;

/** Takes secrets, and the host that the target is at, out of what its provider says. */
export function redactFor({ endpoints }: Target, redact: Redact): Redact {
  return (text) => {
    let out = redact(text);
    for (const { url } of Object.values(endpoints)) {
      const host = URL.parse(url)?.hostname ?? "";
      if (IS_TELLING.test(host)) out = out.replaceAll(host, HIDDEN_ADDRESS);
    }
    return out;
  };
}
