/**
 * Where an IP address leads. `local` is this machine, a private network or none that the internet knows; `forbidden` is
 * what no server answers from, and where clouds hand out credentials of the machine.
 */
export type AddressKind = "public" | "local" | "forbidden";

type Range = readonly [prefix: string, bits: number];

const FORBIDDEN: readonly Range[] = [
  ["0.0.0.0", 8],
  ["169.254.0.0", 16],
  ["100.100.100.200", 32],
  // Azure's metadata and DNS, and Oracle's metadata.
  ["168.63.129.16", 32],
  ["192.0.0.192", 32],
  ["224.0.0.0", 3],
];
/** IANA's registry of special-purpose addresses (RFC 6890), without those above. */
const LOCAL: readonly Range[] = [
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
];

/** Tells what an address is, in any way to write it, IPv6 with or without brackets; null for a name. */
export function addressKind(host: string): AddressKind | null {
  const bare = host.replace(/^\[|\]$/g, "").replace(/%.*$/, "");
  if (!bare.includes(":")) {
    const address = URL.parse(`http://${bare}/`)?.hostname ?? "";
    return /^\d+\.\d+\.\d+\.\d+$/.test(address) ? kindOfV4(toNumber(address)) : null;
  }
  const address = URL.parse(`http://[${bare}]/`)?.hostname;
  return address === undefined ? null : kindOfV6(toGroups(address.slice(1, -1)));
}

function kindOfV4(address: number): AddressKind {
  const isIn = ([prefix, bits]: Range) => (address ^ toNumber(prefix)) >>> (32 - bits) === 0;
  return FORBIDDEN.some(isIn) ? "forbidden" : LOCAL.some(isIn) ? "local" : "public";
}

function kindOfV6(groups: readonly number[]): AddressKind {
  const [first = 0, second = 0, third = 0] = groups;
  const [high = 0, low = 0] = groups.slice(6);
  const embedded = (high: number, low: number) => kindOfV4((high << 16 | low) >>> 0);
  const startsWith = (...wanted: number[]) => wanted.every((group, at) => groups[at] === group);
  // Mapped and compatible addresses, those of NAT64 and of 6to4 are IPv4's.
  if (startsWith(0, 0, 0, 0, 0, 0xffff)) return embedded(high, low);
  if (startsWith(0, 0, 0, 0, 0, 0)) {
    return high === 0 && low === 1 ? "local" : embedded(high, low);
  }
  if (startsWith(0x64, 0xff9b, 0, 0, 0, 0)) return embedded(high, low);
  // NAT64 of a network's own (RFC 8215), which may lead to a cloud's metadata too.
  if (startsWith(0x64, 0xff9b, 1)) {
    return high !== 0 && embedded(high, low) === "forbidden" ? "forbidden" : "local";
  }
  if (first === 0x2002) return embedded(second, third);
  if ((first & 0xffc0) === 0xfe80 || (first & 0xff00) === 0xff00) return "forbidden";
  if (startsWith(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)) return "forbidden";
  // Global unicast (RFC 4291) but protocol assignments (Teredo among them) and documentation.
  const isGlobal = (first & 0xe000) === 0x2000 && !(first === 0x2001 && second < 0x200) &&
    !startsWith(0x2001, 0xdb8) && !(first === 0x3fff && second < 0x1000);
  return isGlobal ? "public" : "local";
}

function toNumber(address: string): number {
  return address.split(".").reduce((sum, part) => (sum << 8 | Number(part)) >>> 0, 0);
}

/** The eight groups of an address that the URL parser has written. */
function toGroups(address: string): number[] {
  const [front = [], back = []] = address.split("::").map((part) =>
    part.split(":").filter((group) => group !== "").map((group) => parseInt(group, 16))
  );
  return [...front, ...new Array<number>(8 - front.length - back.length).fill(0), ...back];
}
