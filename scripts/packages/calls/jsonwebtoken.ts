import jwt from "jsonwebtoken";

/** Signs a token, and verifies it. */
export function token(): { signed: string; payload: unknown; problem: string } {
  const signed = jwt.sign({ foo: "bar" }, "shhhhh", { noTimestamp: true });
  try {
    jwt.verify(signed, "wrong-secret");
    return { signed, payload: undefined, problem: "none" };
  } catch (error) {
    return { signed, payload: jwt.verify(signed, "shhhhh"), problem: (error as Error).message };
  }
}
