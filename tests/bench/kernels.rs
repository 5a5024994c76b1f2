//! `cargo bench`: the operations of the fused block in the shapes of a training step of SmolLM2-135M
//! on the corpus of `scripts/bench.sh train`: 16 rows of 87 tokens behind a prefix of 164, 624 labels.
//! The second column of counters is operations (products) or bytes (passes) per second.

use divan::counter::{BytesCount, ItemsCount};
use understudy::student::kernels::{self, Batch};

const BATCH: Batch = Batch { shared: 164, rows: 16, length: 87 };
const TOKENS: usize = BATCH.shared + BATCH.rows * BATCH.length;
const WIDTH: usize = 576;
const MLP: usize = 1536;
const HEADS: (usize, usize, usize) = (9, 3, 64);
const VOCAB: usize = 49_152;
const LABELS: usize = 624;

fn main() {
    divan::main();
}

/// Multiplications and additions of a product.
fn flops(rows: usize, inner: usize, columns: usize) -> ItemsCount {
    ItemsCount::new(2 * rows * inner * columns)
}

/// Inner and outer size of the products of one block: q and o, k and v, gate and up, down, and of an
/// adapter's two.
#[divan::bench(args = [(576, 576), (576, 192), (576, 1536), (1536, 576), (576, 16), (16, 1536)], sample_count = 20)]
fn product(bencher: divan::Bencher, (inner, columns): (usize, usize)) {
    let mut work = kernels::matrix(TOKENS, inner, columns, false);
    bencher.counter(flops(TOKENS, inner, columns)).bench_local(&mut work);
}

/// The same against a transposed right matrix, as in a backward pass.
#[divan::bench(args = [(576, 576), (192, 576), (1536, 576), (576, 1536)], sample_count = 20)]
fn product_back(bencher: divan::Bencher, (inner, columns): (usize, usize)) {
    let mut work = kernels::matrix(TOKENS, inner, columns, true);
    bencher.counter(flops(TOKENS, inner, columns)).bench_local(&mut work);
}

#[divan::bench(args = [false, true], sample_count = 20)]
fn attention(bencher: divan::Bencher, back: bool) {
    let (heads, kv, dim) = HEADS;
    bencher.bench_local(kernels::attention(BATCH, heads, kv, dim, back));
}

#[divan::bench(args = [false, true], sample_count = 50)]
fn norm(bencher: divan::Bencher, back: bool) {
    // Read and written once forward; three read, one read and written backward.
    let passes = if back { 7 } else { 2 };
    bencher.counter(BytesCount::new(4 * passes * TOKENS * WIDTH)).bench_local(kernels::rms_norm(TOKENS, WIDTH, back));
}

#[divan::bench(args = [false, true], sample_count = 50)]
fn swiglu(bencher: divan::Bencher, back: bool) {
    let passes = if back { 8 } else { 3 };
    bencher.counter(BytesCount::new(4 * passes * TOKENS * MLP)).bench_local(kernels::gated(TOKENS, MLP, back));
}

#[divan::bench(sample_count = 5)]
fn cross_entropy(bencher: divan::Bencher) {
    let two = flops(LABELS, WIDTH, 2 * VOCAB);
    bencher.counter(two).bench_local(kernels::cross_entropy(LABELS, WIDTH, VOCAB));
}
