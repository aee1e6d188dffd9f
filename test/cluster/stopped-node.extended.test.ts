/** An upstream whose node is stopped, and continues. */
process.env["BERTH_TEST_STOPPED_NODE"] = "1";
await import("./one-upstream.test.ts");
