/** The odd habits of upstreams again, in the modern era and as bodies of JSON. */
process.env["BERTH_TEST_ODD"] = "other";
await import("./odd-servers.test.ts");
await import("./odd-http.test.ts");
