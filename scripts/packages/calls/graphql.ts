import { buildSchema, graphql } from "graphql";

const schema = buildSchema("type Query { hello(name: String!): String }");

/** Answers a query. */
export async function answer(): Promise<{ data: unknown; problem: string | undefined }> {
  const rootValue = { hello: ({ name }: { name: string }) => `Hello ${name}!` };
  const { data } = await graphql({ schema, source: '{ hello(name: "world") }', rootValue });
  const { errors } = await graphql({ schema, source: "{ bye }", rootValue });
  return { data: data && { hello: data["hello"] }, problem: errors?.[0]?.message };
}
