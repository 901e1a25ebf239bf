import assert from "node:assert/strict";
import { isLoopbackHost, isPrivateAddress } from "../../src/core/private_address.ts";

Deno.test("addresses that are not of the public internet", () => {
  const inside = [
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "[::1]",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:a9fe:a9fe",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "168.63.129.16",
    "::ffff:168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.51.100.7",
    "203.0.113.9",
    "240.0.0.1",
    "64:ff9b:1::a00:1",
    "100::1",
    "100:0:0:1::1",
    "2001::1",
    "2001:2::1",
    "2001:10::1",
    "2001:1ff::1",
    "2001:db8::1",
    "3fff::1",
    "3fff:fff::1",
    "5f00::1",
  ];
  const outside = [
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "192.0.1.1",
    "168.63.129.17",
    "203.0.114.1",
    "2606:4700::1111",
    "2001:4860:4860::8888",
    "2001:200::1",
    "3fff:1000::1",
  ];
  for (const address of inside) assert.ok(isPrivateAddress(address), address);
  for (const address of outside) assert.ok(!isPrivateAddress(address), address);
  for (const name of ["example.com", "10.example.com", ""]) assert.ok(!isPrivateAddress(name));
});

Deno.test("hosts that are this machine", () => {
  for (
    const host of ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]", "LOCALHOST."]
  ) {
    assert.ok(isLoopbackHost(host), host);
  }
  for (const host of ["localhost.example", "127.0.0.1.example", "128.0.0.1", "[::2]", ""]) {
    assert.ok(!isLoopbackHost(host), host);
  }
});
