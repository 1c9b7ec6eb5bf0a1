#include "standin/gpu_models.h"

namespace standin {

namespace {

constexpr std::array<int, 7> kEvery{0, 1, 2, 3, 4, 5, 6};
constexpr std::array<int, 7> kPairs{0, 2, 4, 6, -1};
constexpr std::array<int, 7> kTwos{0, 2, 4, -1};
constexpr std::array<int, 7> kHalves{0, 4, -1};
constexpr std::array<int, 7> kFirst{0, -1};

struct SliceNames {
  const char *one, *one_media, *one_wide, *two, *three, *four, *seven;
};
struct SliceSizes {  // MiB and multiprocessors
  unsigned int one_mb, two_mb, four_mb, all_mb;
  unsigned int one, wide, two, three, four, all;
};

// A100 and what came after share ids and geometry: 7 computing and 8 memory slices.
std::vector<MigShape> seven(const SliceNames& names, const SliceSizes& size, unsigned int decoders_each,
                            unsigned int decoders_all, unsigned int jpeg_each, unsigned int jpeg_all) {
  const unsigned int d = decoders_each, j = jpeg_each;
  return {
      {names.one, 19, 0x0, 1, 1, size.one_mb, size.one, 1, d, j, 0, 7, kEvery},
      {names.one_media, 20, 0x7, 1, 1, size.one_mb, size.one, 1, 1, 1, 1, 1, kEvery},
      {names.one_wide, 15, 0x9, 1, 2, size.two_mb, size.wide, 1, 1, j, 0, 4, kPairs},
      {names.two, 14, 0x1, 2, 2, size.two_mb, size.two, 2, d == 0 ? 1 : 2 * d, 2 * j, 0, 3, kTwos},
      {names.three, 9, 0x2, 3, 4, size.four_mb, size.three, 3, d == 0 ? 2 : 3 * d, 3 * j, 0, 2, kHalves},
      {names.four, 5, 0x3, 4, 4, size.four_mb, size.four, 4, d == 0 ? 2 : 4 * d, 4 * j, 0, 1, kFirst},
      {names.seven, 0, 0x4, 7, 8, size.all_mb, size.all, d == 0 ? 7u : 8u, decoders_all, jpeg_all, 1, 1, kFirst},
  };
}

const std::vector<Model>& models() {
  static const std::vector<Model> all{
      {"h100",
       "NVIDIA H100 80GB HBM3",
       81559,
       0x233010DE,
       9,
       9,
       0,
       700,
       70,
       200,
       1980,
       2619,
       5,
       Links::kSwitch,
       18,
       6,
       26562,
       4,
       132,
       "96.00.89.00.01",
       seven({"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
             {9984, 20096, 40448, 81152, 16, 26, 32, 60, 64, 132}, 1, 7, 1, 7)},
      {"h200",
       "NVIDIA H200",
       143771,
       0x233510DE,
       9,
       9,
       0,
       700,
       75,
       200,
       1980,
       3201,
       5,
       Links::kSwitch,
       18,
       6,
       26562,
       4,
       132,
       "96.00.BC.00.01",
       seven({"1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"},
             {16384, 33280, 71168, 143104, 16, 26, 32, 60, 64, 132}, 1, 7, 1, 7)},
      {"a100",
       "NVIDIA A100-SXM4-80GB",
       81920,
       0x20B210DE,
       7,
       8,
       0,
       400,
       60,
       100,
       1410,
       1593,
       4,
       Links::kSwitch,
       12,
       4,
       25000,
       6,
       108,
       "92.00.45.00.05",
       seven({"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
             {9728, 19968, 40192, 80640, 14, 14, 28, 42, 56, 98}, 0, 5, 0, 1)},
      {"b200",
       "NVIDIA B200",
       183359,
       0x290110DE,
       10,
       10,
       0,
       1000,
       140,
       200,
       1965,
       3996,
       5,
       Links::kSwitch,
       18,
       7,
       53125,
       2,
       148,
       "97.00.82.00.15",
       seven({"1g.23gb", "1g.23gb+me", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"},
             {22272, 45312, 90880, 182400, 18, 30, 36, 70, 72, 148}, 1, 7, 1, 7)},
      {"v100", "Tesla V100-SXM2-32GB",
       32768,  0x1DB510DE,
       5,      7,
       0,      300,
       42,     150,
       1530,   877,
       3,      Links::kMesh,
       6,      2,
       25781,  0,
       80,     "88.00.80.00.01",
       {}},
      {"l40s", "NVIDIA L40S",    46068, 0x26B910DE, 8, 8, 9, 350, 33, 100, 2520, 9001, 4, Links::kNone, 0, 0, 0, 0,
       142,    "95.02.66.00.02", {}},
  };
  return all;
}

}  // namespace

const Model& model_of(const std::string& type) {
  for (const Model& model : models())
    if (type == model.type)
      return model;
  static const Model unknown = [] {
    Model model = models()[0];
    model.type = "";
    model.product = "";
    model.mig.clear();
    return model;
  }();
  return unknown;
}

}  // namespace standin
