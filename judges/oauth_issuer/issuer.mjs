// An OAuth issuer that others maintain, with two clients: one whose tokens are for the gateway.
// Usage: node issuer.mjs PACKAGES PORT GATEWAY, where the packages are installed, and addresses.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [, , packages, port, gateway] = process.argv;
const found = createRequire(`${packages}/`).resolve("oidc-provider");
const { Provider } = await import(pathToFileURL(found).href);
const issuer = `http://127.0.0.1:${port}`;

function makeClient(name, scope) {
  return {
    client_id: name,
    client_secret: `${name}-secret`,
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
    scope,
  };
}

const provider = new Provider(issuer, {
  clients: [makeClient("reader", "tools"), makeClient("chief", "tools chief")],
  scopes: ["tools", "chief"],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (context, resource) => ({
        scope: "tools chief",
        audience: resource,
        // Without a resource of its own a token is opaque, which nobody else can read.
        accessTokenFormat: resource.startsWith(gateway) || resource.includes("other") ? "jwt" : "opaque",
        accessTokenTTL: 120,
        jwt: { sign: { alg: resource.includes("elliptic") ? "ES256" : "RS256" } },
      }),
    },
  },
  jwks: { keys: JSON.parse(process.env.ISSUER_KEYS) },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
