import { hideAddresses } from "../../core/hide_addresses.ts";
import { type Redact, showProviderText } from "../provider_text.ts";
import { hideAccounts } from "./hide_accounts.ts";

/** Longest text of a provider that a client gets to see, in characters. */
const MAX_SHOWN = 500;
/** Read past a cut, so that an address or an id that lies across it is seen whole. */
const CUT_MARGIN = 512;

/** A provider's own words for clients: bounded, without secrets, addresses and ids of the provider's account. */
export function showToClient(
  text: string,
  { redact, maxLength = MAX_SHOWN }: { redact: Redact; maxLength?: number },
): string {
  const read = showProviderText(text, { redact, maxLength: maxLength + CUT_MARGIN });
  const shown = hideAccounts(hideAddresses(read));
  const isWhole = text.length <= maxLength + CUT_MARGIN;
  const length = isWhole
    ? maxLength
    : Math.max(0, Math.min(maxLength, shown.length - CUT_MARGIN / 2));
  return shown.slice(0, length).toWellFormed();
}
