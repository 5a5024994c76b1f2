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
    /// 32 numbers: an f16 scale, 32 signed bytes.
    Q8_0,
    /// 256 numbers: 4 low bits, 2 high bits, 16 signed scales, an f16 scale.
    Q6_K,
}

impl Format {
    /// From a GGUF type code.
    pub fn from_gguf(code: u32) -> Option<Format> {
        Some(match code {
            0 => Format::F32,
            1 => Format::F16,
            2 => Format::Q4_0,
            3 => Format::Q4_1,
            8 => Format::Q8_0,
            14 => Format::Q6_K,
            30 => Format::BF16,
            _ => return None,
        })
    }

    /// Numbers and bytes of one block.
    fn block(self) -> (usize, usize) {
        match self {
            Format::F32 => (1, 4),
            Format::F16 | Format::BF16 => (1, 2),
            Format::Q4_0 => (32, 18),
            Format::Q4_1 => (32, 20),
            Format::Q8_0 => (32, 34),
            Format::Q6_K => (256, 210),
        }
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
                Format::Q8_0 => out.extend(block[2..].iter().map(|q| *q as i8 as f32 * half(block))),
                Format::Q6_K => q6_k(block, &mut out),
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
    fn rows_must_be_whole_blocks() {
        assert_eq!(Format::Q4_1.bytes_for(64, 128), Some(80));
        assert_eq!(Format::Q4_1.bytes_for(33, 66), None);
    }
}
