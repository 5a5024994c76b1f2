//! What the golden numbers cannot show: worked examples of conventions without a program of their
//! own, and the sides of each convention that no original can be asked about.

use super::*;
