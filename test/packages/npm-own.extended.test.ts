// npm as its user has it does what the confined one does.
process.env["BERTH_TEST_NPM"] = "own";
await import("./npm.test.ts");
