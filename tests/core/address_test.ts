import assert from "node:assert/strict";
import { addressKind } from "../../src/core/address.ts";

const KINDS: Record<string, readonly string[]> = {
  public: [
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "223.255.255.255",
    "2606:4700::1111",
    "[2a00:1450::200e]",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
  ],
  local: [
    "127.0.0.1",
    "127.255.255.255",
    "0x7f.1",
    "2130706433",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "100.64.0.1",
    "192.0.2.1",
    "198.19.255.255",
    "203.0.113.9",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "64:ff9b:1::a00:1",
    "192.0.0.1",
    "192.88.99.1",
    "2001:2::1",
    "2001:10::1",
    "3fff::1",
    "2002:7f00:1::1",
    "2002:c0a8:101::",
    "fd00::1",
    "fc00::1",
    "fec0::1",
    "2001:db8::1",
    "2001:0:4136:e378::1",
    "100::1",
  ],
  forbidden: [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.169.254",
    "0xa9fea9fe",
    "100.100.100.200",
    "168.63.129.16",
    "::ffff:168.63.129.16",
    "192.0.0.192",
    "64:ff9b::a83f:8110",
    "64:ff9b:1::a9fe:a9fe",
    "224.0.0.1",
    "239.1.1.1",
    "255.255.255.255",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "febf::1",
    "ff02::1",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::",
  ],
};

Deno.test("addresses are told apart, in all ways to write them", () => {
  for (const [kind, addresses] of Object.entries(KINDS)) {
    for (const address of addresses) assert.equal(addressKind(address), kind, address);
  }
  for (const name of ["localhost", "api.test", "1.2.3.4.test", "a:b", "", "metadata"]) {
    assert.equal(addressKind(name), null, name);
  }
});
