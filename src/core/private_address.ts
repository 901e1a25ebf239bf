import { isIP } from "node:net";

/** Whether a host of a URL is this machine by its name or its address; only there is plain http safe. */
export function isLoopbackHost(host: string): boolean {
  const name = bare(host);
  return name === "localhost" || name.endsWith(".localhost") || name === "::1" ||
    isIP(name) === 4 && name.startsWith("127.");
}

/**
 * Whether an address is not one of the public internet: this machine, a private network, a cloud's metadata, or any other
 * that IANA's special-purpose registries (RFC 6890) hold.
 */
export function isPrivateAddress(address: string): boolean {
  const name = bare(address);
  if (isIP(name) === 4) return isPrivateV4(name.split(".").map(Number));
  if (isIP(name) !== 6) return false;
  const words = wordsOf(name);
  const [a = 0, b = 0] = words;
  const isZero = words.slice(0, 5).every((word) => word === 0);
  if (isZero && (words[5] === 0xffff || words[5] === 0)) {
    const [high = 0, low = 0] = words.slice(6);
    return words[5] === 0 && high === 0 && low <= 1 ||
      isPrivateV4([high >> 8, high & 255, low >> 8, low & 255]);
  }
  // NAT64 (64:ff9b::/96 and 64:ff9b:1::/48) and 6to4 carry an IPv4 address that a gateway would go to.
  if (a === 0x64 && b === 0xff9b || a === 0x2002) return true;
  // Discarded and dummy prefixes, protocol assignments (Teredo among them), documentation, segment routing.
  if (a === 0x100 && b === 0 || a === 0x2001 && b < 0x200 || a === 0x2001 && b === 0xdb8) {
    return true;
  }
  if (a === 0x3fff && b < 0x1000 || a === 0x5f00) return true;
  return (a & 0xfe00) === 0xfc00 || (a & 0xffc0) === 0xfe80 || (a & 0xffc0) === 0xfec0 ||
    (a & 0xff00) === 0xff00;
}

function isPrivateV4([a = 0, b = 0, c = 0, d = 0]: readonly number[]): boolean {
  return a === 0 || a === 10 || a === 127 || a >= 224 ||
    a === 100 && b >= 64 && b < 128 ||
    a === 169 && b === 254 ||
    a === 172 && b >= 16 && b < 32 ||
    a === 192 && (b === 168 || b === 0 && (c === 0 || c === 2) || b === 88 && c === 99) ||
    a === 198 && (b === 18 || b === 19 || b === 51 && c === 100) ||
    a === 203 && b === 0 && c === 113 ||
    // Azure gives machines their metadata and DNS at this public one.
    a === 168 && b === 63 && c === 129 && d === 16;
}

function wordsOf(address: string): number[] {
  const host = new URL(`http://[${address.replace(/%.*$/, "")}]`).hostname.slice(1, -1);
  const [head = "", tail] = host.split("::");
  const parse = (text: string) =>
    text === "" ? [] : text.split(":").map((word) => parseInt(word, 16));
  if (tail === undefined) return parse(head);
  const [first, last] = [parse(head), parse(tail)];
  return [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
}

function bare(host: string): string {
  return host.replace(/^\[|\]$/g, "").replace(/\.$/, "").toLowerCase();
}
