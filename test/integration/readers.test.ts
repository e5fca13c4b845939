// Who may read, without a worker behind it: whoever is refused takes nothing from those who may.

import { expect, it } from 'vitest'
import { apiScope } from '../../src/web/api/scope.ts'
import { readAssets } from '../../src/web/assets.ts'
import { identified, openAuthentication } from '../../src/web/auth.ts'
import { openLookUp } from '../../src/web/people-store.ts'
import { forReaders } from '../../src/web/readers.ts'
import { openReadingPlaces } from '../../src/web/reading-places.ts'
import { quietLog } from '../support/database.ts'
import { viewerToken } from '../support/served-actions.ts'
import { serve } from '../support/served-routes.ts'

it('those who are refused keep no place of those who may read', async () => {
  const authentication = openAuthentication({
    tokens: (role) => (role === 'viewer' ? [viewerToken] : []),
    lookUp: openLookUp(() => null),
    ...{ sessionMs: 60_000, log: quietLog, onLockedOut() {} },
    proxied: () => ({ person: null, problem: null }),
  })
  const reading = { authentication, isOpen: false, assets: readAssets() }
  const url = await serve(
    identified(authentication, [
      forReaders({ ...reading, places: openReadingPlaces() }, [
        apiScope(quietLog, [(scope) => scope.get('/seen', async () => JSON.stringify({ seen: true }))]),
      ]),
    ]),
  )
  const ask = async (headers: Record<string, string>) =>
    (await fetch(`${url}/api/v1/seen`, { headers })).status
  for (let asked = 0; asked < 10; asked++) expect(await ask({})).toBe(401)
  expect(await ask({ authorization: `Bearer ${viewerToken}` })).toBe(200)
}, 20_000)
