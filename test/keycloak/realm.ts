// The realm in which the console is tried: three people, the client of the console, and one of another program.

export const consoleUrl = 'http://127.0.0.1:8090'
/** By another name than the console, so that the browser takes them for two sites. */
export const keycloakUrl = 'http://localhost:8089'
export const issuer = `${keycloakUrl}/realms/works`
export const client = { id: 'tidemark', secret: 'a-secret-of-keycloak' }
export const otherClient = { id: 'another-program', secret: 'a-secret-of-another' }

const person = (username: string, ...realmRoles: readonly string[]) => ({
  ...{ username, enabled: true, email: `${username}@example.com`, emailVerified: true },
  ...{ firstName: username, lastName: 'Nordmann', realmRoles },
  credentials: [{ type: 'password', value: passwordOf(username) }],
})
export const passwordOf = (username: string): string => `${username}-password`

const clientOf = ({ id, secret }: typeof client) => ({
  ...{ clientId: id, secret, enabled: true, protocol: 'openid-connect', publicClient: false },
  ...{ standardFlowEnabled: true, redirectUris: [`${consoleUrl}/sign-in/oidc/callback`] },
  attributes: {
    'pkce.code.challenge.method': 'S256',
    'post.logout.redirect.uris': `${consoleUrl}/sign-in`,
  },
  protocolMappers: [
    {
      ...{ name: 'roles', protocol: 'openid-connect', protocolMapper: 'oidc-usermodel-realm-role-mapper' },
      config: { 'claim.name': 'roles', multivalued: 'true', 'id.token.claim': 'true' },
    },
  ],
})

export const realm = {
  ...{ realm: 'works', enabled: true, sslRequired: 'none' },
  roles: { realm: ['viewer', 'operator', 'admin'].map((role) => ({ name: `tidemark-${role}` })) },
  users: [
    person('ola', 'tidemark-operator'),
    person('kari', 'tidemark-viewer', 'tidemark-admin'),
    person('per'),
  ],
  clients: [clientOf(client), clientOf(otherClient)],
}
