import JSON5 from "json5";

/** Reads JSON with comments. */
export function value(): unknown {
  return JSON5.parse(
    "{ // comments\n unquoted: 'and you can quote me on that', hexadecimal: 0xdecaf, trailing: [1,], }",
  );
}
