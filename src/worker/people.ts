// Who people are to this worker, by what the settings say: tokens, an identity provider, or a proxy in front.

import type { Config } from '../config/load.ts'
import type { Pool } from '../context.ts'
import type { Logger } from '../log.ts'
import type { RoleGroups } from '../operator/roles.ts'
import { endSession, readSession, saveSession, useToken } from '../store/book/people.ts'
import { type Authentication, openAuthentication } from '../web/auth.ts'
import type { NoteSignIn } from '../web/noting.ts'
import { type IdentityProvider, openIdentityProvider } from '../web/oidc.ts'
import { openLookUp, type PeopleStore } from '../web/people-store.ts'
import { openProxyIdentity } from '../web/proxy-identity.ts'
import { isLoopback } from '../web/server.ts'

type Given = {
  readonly config: Config
  /** Null while Postgres is away. */
  readonly pool: () => Pool | null
  readonly noteSignIn: NoteSignIn
  readonly log: Logger
}
type People = {
  readonly authentication: Authentication
  /** Null: people sign in with tokens only. */
  readonly provider: IdentityProvider | null
  /** Everybody may read the pages who reaches the address. */
  readonly isOpen: boolean
}

export function openPeople({ config, pool, noteSignIn, log }: Given): People {
  const { identityProxies: proxies, identityUserHeader: userHeader, viewerToken } = config
  const { identityGroupsHeader: groupsHeader, sessionMs } = config
  const groups = { admin: config.adminGroups, operator: config.operatorGroups, viewer: config.viewerGroups }
  const provider = providerOf(config, groups)
  const authentication = openAuthentication({
    tokens: config.secretFiles.tokensOf,
    sessionMs,
    log,
    lookUp: openLookUp(() => storeIn(pool())),
    proxied: openProxyIdentity({ proxies, userHeader, groupsHeader, groups, log }),
    onLockedOut: (request) => void noteSignIn(request, { action: 'lockedOut', person: null }),
  })
  const isClosed = viewerToken !== null || provider !== null || proxies.length > 0
  return { authentication, provider, isOpen: isLoopback(config.httpHost) && !isClosed }
}

function providerOf(config: Config, groups: RoleGroups): IdentityProvider | null {
  const { oidcIssuer: issuer, oidcClientId: clientId, consoleUrl, secretFiles, proxies } = config
  if (issuer === null || clientId === null || consoleUrl === null) return null
  const { oidcScope: scope, oidcRoleClaim: roleClaim, oidcNameClaim: nameClaim } = config
  return openIdentityProvider({
    issuer,
    clientId,
    clientSecret: secretFiles.oidcClientSecret,
    consoleUrl,
    scope,
    roleClaim,
    nameClaim,
    groups,
    proxies,
  })
}

const storeIn = (pool: Pool | null): PeopleStore | null =>
  pool && {
    saveSession: (session) => saveSession(pool, session),
    readSession: (hash) => readSession(pool, hash),
    endSession: (hash) => endSession(pool, hash),
    useToken: (hash) => useToken(pool, hash),
  }
