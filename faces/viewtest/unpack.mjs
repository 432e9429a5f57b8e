// node unpack.mjs FROM TO writes what each file FROM/*.br was made of to TO.
import {createReadStream, createWriteStream, readdirSync} from 'node:fs';
import {join} from 'node:path';
import {pipeline} from 'node:stream/promises';
import {createBrotliDecompress} from 'node:zlib';

const [from, to] = process.argv.slice(2);
for (const name of readdirSync(from).filter(name => name.endsWith('.br'))) {
  await pipeline(createReadStream(join(from, name)), createBrotliDecompress(),
    createWriteStream(join(to, name.slice(0, -3)), {mode: 0o755}));
}
