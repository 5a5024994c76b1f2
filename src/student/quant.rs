//! Stored number formats to f32. Block layouts as in ggml (`ggml-quants.c`, `dequantize_row_*`).

use half::{bf16, f16};

/// How the numbers of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the names that files and papers use")]
pub(crate) enum Format {
    F32,
    F16,
    BF16,
    /// 32 numbers: an f16 scale, 16 bytes of 4 bits minus 8.
    Q4_0,
    /// 32 numbers: an f16 scale, an f16 minimum, 16 bytes of 4 bits.
    Q4_1,
    /// 32 numbers: an f16 scale, 4 bytes of fifth bits, 16 bytes of 4 bits, all minus 16.
    Q5_0,
    /// 32 numbers: an f16 scale, an f16 minimum, 4 bytes of fifth bits, 16 bytes of 4 bits.
    Q5_1,
    /// 32 numbers: an f16 scale, 32 signed bytes.
    Q8_0,
    /// 256 numbers: 16 bytes of scale and minimum, 2 bits each, f16 factors of scales and minima.
    Q2_K,
    /// 256 numbers: third bits, 2 low bits, 16 scales of 6 bits, an f16 scale.
    Q3_K,
    /// 256 numbers: f16 factors of scales and minima, 8 of each in 6 bits, 4 bits each.
    Q4_K,
    /// As [`Format::Q4_K`], with fifth bits.
    Q5_K,
    /// 256 numbers: 4 low bits, 2 high bits, 16 signed scales, an f16 scale.
    Q6_K,
    /// 32 numbers: an f16 scale, 16 bytes of two places in [`LEVELS`].
    IQ4_NL,
    /// 256 numbers: an f16 scale, 8 scales of 6 bits, places in [`LEVELS`].
    IQ4_XS,
}

/// The levels of the non-linear formats (`kvalues_iq4nl`).
const LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Every format with its GGUF type code, the numbers of one block and its bytes.
const LAYOUTS: [(Format, u32, usize, usize); 15] = [
    (Format::F32, 0, 1, 4),
    (Format::F16, 1, 1, 2),
    (Format::Q4_0, 2, 32, 18),
    (Format::Q4_1, 3, 32, 20),
    (Format::Q5_0, 6, 32, 22),
    (Format::Q5_1, 7, 32, 24),
    (Format::Q8_0, 8, 32, 34),
    (Format::Q2_K, 10, 256, 84),
    (Format::Q3_K, 11, 256, 110),
    (Format::Q4_K, 12, 256, 144),
    (Format::Q5_K, 13, 256, 176),
    (Format::Q6_K, 14, 256, 210),
    (Format::IQ4_NL, 20, 32, 18),
    (Format::IQ4_XS, 23, 256, 136),
    (Format::BF16, 30, 1, 2),
];

impl Format {
    /// From a GGUF type code.
    pub fn from_gguf(code: u32) -> Option<Format> {
        LAYOUTS.iter().find(|(_, known, ..)| *known == code).map(|(format, ..)| *format)
    }

    /// The names of all formats, for messages.
    pub fn names() -> String {
        LAYOUTS.map(|(format, ..)| format!("{format:?}")).join(", ")
    }

    /// Numbers and bytes of one block.
    fn block(self) -> (usize, usize) {
        let layout = LAYOUTS.iter().find(|(format, ..)| *format == self);
        layout.map(|(_, _, numbers, bytes)| (*numbers, *bytes)).expect("every format stands in the table")
    }

    /// Bytes of `values` numbers in rows of `row`; `None` where rows are not whole blocks.
    pub fn bytes_for(self, row: usize, values: usize) -> Option<usize> {
        let (numbers, bytes) = self.block();
        if row.is_multiple_of(numbers) { (values / numbers).checked_mul(bytes) } else { None }
    }

    /// All numbers, as f32.
    pub fn to_f32(self, stored: &[u8]) -> Vec<f32> {
        let (numbers, bytes) = self.block();
        let mut out = Vec::with_capacity(stored.len() / bytes * numbers);
        for block in stored.chunks_exact(bytes) {
            match self {
                Format::F32 => out.push(f32::from_le_bytes([block[0], block[1], block[2], block[3]])),
                Format::F16 => out.push(half(block)),
                Format::BF16 => out.push(bf16::from_le_bytes([block[0], block[1]]).to_f32()),
                Format::Q4_0 => nibbles(&block[2..], half(block), -8.0 * half(block), &mut out),
                Format::Q4_1 => nibbles(&block[4..], half(block), half(&block[2..]), &mut out),
                Format::Q5_0 => fives(&block[2..], half(block), -16.0 * half(block), &mut out),
                Format::Q5_1 => fives(&block[4..], half(block), half(&block[2..]), &mut out),
                Format::Q8_0 => out.extend(block[2..].iter().map(|q| *q as i8 as f32 * half(block))),
                Format::Q2_K => q2_k(block, &mut out),
                Format::Q3_K => q3_k(block, &mut out),
                Format::Q4_K => q4_k(block, &mut out),
                Format::Q5_K => q5_k(block, &mut out),
                Format::Q6_K => q6_k(block, &mut out),
                Format::IQ4_NL => levels(&block[2..], half(block), &mut out),
                Format::IQ4_XS => iq4_xs(block, &mut out),
            }
        }
        out
    }
}

fn half(bytes: &[u8]) -> f32 {
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// First the low halves of all bytes, then the high ones.
fn nibbles(packed: &[u8], scale: f32, offset: f32, out: &mut Vec<f32>) {
    out.extend(packed.iter().map(|q| (q & 15) as f32 * scale + offset));
    out.extend(packed.iter().map(|q| (q >> 4) as f32 * scale + offset));
}

/// As [`nibbles`], behind four bytes with a fifth bit for each number.
fn fives(stored: &[u8], scale: f32, offset: f32, out: &mut Vec<f32>) {
    let (fifth, packed) = stored.split_at(4);
    let number = |i: usize, four: u8| (four | (fifth[i / 8] >> (i % 8) & 1) << 4) as f32 * scale + offset;
    out.extend(packed.iter().enumerate().map(|(i, q)| number(i, q & 15)));
    out.extend(packed.iter().enumerate().map(|(i, q)| number(i + 16, q >> 4)));
}

fn levels(packed: &[u8], scale: f32, out: &mut Vec<f32>) {
    out.extend(packed.iter().map(|q| scale * LEVELS[(q & 15) as usize] as f32));
    out.extend(packed.iter().map(|q| scale * LEVELS[(q >> 4) as usize] as f32));
}

fn iq4_xs(block: &[u8], out: &mut Vec<f32>) {
    let (d, high) = (half(block), u16::from_le_bytes([block[2], block[3]]));
    let (low, packed) = block[4..].split_at(4);
    for (i, packed) in packed.chunks_exact(16).enumerate() {
        let scale = low[i / 2] >> (4 * (i % 2)) & 15 | ((high >> (2 * i) & 3) as u8) << 4;
        levels(packed, d * (scale as i32 - 32) as f32, out);
    }
}

/// Number `i` of 256 that lie as 2 bits: two halves of 128, in each four quarters of 32 share 32 bytes.
fn two_bits(packed: &[u8], i: usize) -> u8 {
    packed[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3
}

fn q2_k(block: &[u8], out: &mut Vec<f32>) {
    let (scales, rest) = block.split_at(16);
    let (packed, factors) = rest.split_at(64);
    let (d, least) = (half(factors), half(&factors[2..]));
    for i in 0..256 {
        let scale = scales[i / 16];
        out.push(d * (scale & 15) as f32 * two_bits(packed, i) as f32 - least * (scale >> 4) as f32);
    }
}

fn q3_k(block: &[u8], out: &mut Vec<f32>) {
    let (third, rest) = block.split_at(32);
    let (packed, rest) = rest.split_at(64);
    let (scales, d) = rest.split_at(12);
    let d = half(d);
    for i in 0..256 {
        let k = i / 16;
        let low = if k < 8 { scales[k] & 15 } else { scales[k - 8] >> 4 };
        let scale = (low | (scales[8 + k % 4] >> (2 * (k / 4)) & 3) << 4) as i32 - 32;
        let kept = third[i % 32] >> (i / 32) & 1;
        let q = two_bits(packed, i) as i32 - if kept == 1 { 0 } else { 4 };
        out.push(d * scale as f32 * q as f32);
    }
}

/// Scale and minimum `i` of the eight that share twelve bytes, six bits each.
fn six_bits(packed: &[u8], i: usize) -> (f32, f32) {
    let (scale, least) = match i {
        0..4 => (packed[i] & 63, packed[i + 4] & 63),
        _ => (packed[i + 4] & 15 | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4),
    };
    (scale as f32, least as f32)
}

/// Scale and minimum of part `i` of a block that begins with both factors and the packed twelve bytes.
fn scale_and_least(block: &[u8], i: usize) -> (f32, f32) {
    let (scale, least) = six_bits(&block[4..16], i);
    (half(block) * scale, half(&block[2..]) * least)
}

fn q4_k(block: &[u8], out: &mut Vec<f32>) {
    for (pair, packed) in block[16..].chunks_exact(32).enumerate() {
        let (scale, least) = scale_and_least(block, 2 * pair);
        out.extend(packed.iter().map(|q| scale * (q & 15) as f32 - least));
        let (scale, least) = scale_and_least(block, 2 * pair + 1);
        out.extend(packed.iter().map(|q| scale * (q >> 4) as f32 - least));
    }
}

fn q5_k(block: &[u8], out: &mut Vec<f32>) {
    let (fifth, packed) = block[16..].split_at(32);
    for part in 0..8 {
        let (scale, least) = scale_and_least(block, part);
        out.extend(packed[part / 2 * 32..].iter().zip(fifth).map(|(byte, fifth)| {
            let q = byte >> (4 * (part % 2)) & 15 | (fifth >> part & 1) << 4;
            scale * q as f32 - least
        }));
    }
}

fn q6_k(block: &[u8], out: &mut Vec<f32>) {
    let (low, rest) = block.split_at(128);
    let (high, rest) = rest.split_at(64);
    let (scales, d) = rest.split_at(16);
    let d = half(d);
    for i in 0..256 {
        // Two halves of 128; in each, four quarters of 32 share the bytes of `high`.
        let (part, quarter, lane) = (i / 128, i % 128 / 32, i % 32);
        let byte = low[part * 64 + quarter % 2 * 32 + lane];
        let bits = if quarter < 2 { byte & 15 } else { byte >> 4 };
        let top = high[part * 32 + lane] >> (2 * quarter) & 3;
        let q = (bits | top << 4) as i32 - 32;
        out.push(d * (scales[i / 16] as i8) as f32 * q as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f16_bytes(x: f32) -> [u8; 2] {
        f16::from_f32(x).to_le_bytes()
    }

    #[test]
    fn plain_formats_are_read_bit_for_bit() {
        assert_eq!(Format::F32.to_f32(&1.25f32.to_le_bytes()), [1.25]);
        assert_eq!(Format::F16.to_f32(&f16_bytes(-0.5)), [-0.5]);
        assert_eq!(Format::BF16.to_f32(&bf16::from_f32(3.0).to_le_bytes()), [3.0]);
    }

    #[test]
    fn blocks_of_four_and_eight_bits_follow_the_layout_of_ggml() {
        // Byte j holds number j in its low half and number j + 16 in its high half.
        let packed: Vec<u8> = (0..16).map(|j| j | (15 - j) << 4).collect();
        let block: Vec<u8> = [&f16_bytes(0.5)[..], &packed].concat();
        let out = Format::Q4_0.to_f32(&block);
        assert_eq!((out[0], out[3], out[16], out[31]), (-4.0, -2.5, 3.5, -4.0));
        let block: Vec<u8> = [&f16_bytes(0.5)[..], &f16_bytes(1.0), &packed].concat();
        let out = Format::Q4_1.to_f32(&block);
        assert_eq!((out[0], out[3], out[16], out[31]), (1.0, 2.5, 8.5, 1.0));
        let bytes: Vec<u8> = (0..32).map(|j| (j as i8 - 16) as u8).collect();
        let out = Format::Q8_0.to_f32(&[&f16_bytes(0.25)[..], &bytes].concat());
        assert_eq!((out[0], out[15], out[31]), (-4.0, -0.25, 3.75));
    }

    #[test]
    fn six_bit_blocks_follow_the_layout_of_ggml() {
        // Straight transcription of ggml's dequantize_row_q6_K loop, on bytes without a pattern.
        let bytes: Vec<u8> = (0..208u32).map(|i| (i * 37 + 11) as u8).collect();
        let block: Vec<u8> = [&bytes[..], &f16_bytes(0.125)].concat();
        let (ql, qh, sc) = (&block[..128], &block[128..192], &block[192..208]);
        let mut expected = vec![0f32; 256];
        for n in 0..2 {
            for l in 0..32 {
                let (ql, qh, sc) = (&ql[n * 64..], &qh[n * 32..], &sc[n * 8..]);
                let q = [
                    (ql[l] & 15) | ((qh[l] & 3) << 4),
                    (ql[l + 32] & 15) | ((qh[l] >> 2 & 3) << 4),
                    (ql[l] >> 4) | ((qh[l] >> 4 & 3) << 4),
                    (ql[l + 32] >> 4) | ((qh[l] >> 6 & 3) << 4),
                ];
                for (k, q) in q.into_iter().enumerate() {
                    let scale = sc[l / 16 + 2 * k] as i8 as f32;
                    expected[n * 128 + k * 32 + l] = 0.125 * scale * (q as i32 - 32) as f32;
                }
            }
        }
        assert_eq!(Format::Q6_K.to_f32(&block), expected);
    }

    #[test]
    fn every_format_gives_the_numbers_of_the_gguf_package_bit_for_bit() {
        // scripts/golden/readers.py quants: random bits, dequantised by gguf.quants.dequantize.
        let text = include_str!("../../tests/golden/quants.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
        let bytes = |case: &serde_json::Value, key: &str| -> Vec<u8> {
            let hex = case[key].as_str().unwrap().as_bytes();
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            hex.chunks(2).map(byte).collect()
        };
        let mut seen = vec![Format::F32];
        for case in &cases {
            let name = case["name"].as_str().unwrap();
            let format = Format::from_gguf(case["code"].as_u64().unwrap() as u32).unwrap();
            assert_eq!(format!("{format:?}"), name);
            let values = bytes(case, "values");
            let expected: Vec<f32> = values.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            assert_eq!(format.to_f32(&bytes(case, "blocks")), expected, "{name}");
            assert_eq!(format.bytes_for(expected.len(), expected.len()), Some(bytes(case, "blocks").len()));
            seen.push(format);
        }
        assert!(LAYOUTS.iter().all(|(format, ..)| seen.contains(format)), "{seen:?}");
    }

    #[test]
    fn rows_must_be_whole_blocks() {
        assert_eq!(Format::Q4_1.bytes_for(64, 128), Some(80));
        assert_eq!(Format::Q4_1.bytes_for(33, 66), None);
    }
}
