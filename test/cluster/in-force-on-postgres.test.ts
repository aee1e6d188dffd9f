/** The same over three nodes on one Postgres, each with a data folder of its own, with a fifth of the changes. */
process.env["BERTH_TEST_STORE"] = "postgres";
process.env["BERTH_TEST_CHANGES"] ??= "100";
await import("./in-force.test.ts");
