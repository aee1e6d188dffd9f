import { gql, GraphQLClient } from "graphql-request";

const document = gql`
  query company($name: String!) {
    company(name: $name) {
      ceo
    }
  }
`;

/** Sends a query to a function of the definition's own. */
export async function company(): Promise<{ data: unknown; method: string | undefined }> {
  let method: string | undefined;
  const client = new GraphQLClient("https://api.example.com/graphql", {
    fetch: async (_url, init) => {
      method = init?.method;
      return new Response(JSON.stringify({ data: { company: { ceo: "Ada" } } }), {
        headers: { "content-type": "application/json" },
      });
    },
  });
  const data: unknown = await client.request(document, { name: "Example" });
  return { data, method };
}
