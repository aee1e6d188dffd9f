import { jwtVerify, SignJWT } from "jose";

/** Signs a token, and verifies it. */
export async function token(): Promise<{ parts: number; subject: string | undefined; algorithm: string }> {
  const secret = new TextEncoder().encode("cc7e0d44fd473002f1c42167459001140ec6389b7353f8088f4d9a95f2f596f2");
  const jwt = await new SignJWT({ "urn:example:claim": true })
    .setProtectedHeader({ alg: "HS256" })
    .setSubject("ada")
    .setExpirationTime("2h")
    .sign(secret);
  const { payload, protectedHeader } = await jwtVerify(jwt, secret);
  return { parts: jwt.split(".").length, subject: payload.sub, algorithm: protectedHeader.alg };
}
