// svg: line charts without any script or outside resource.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/report.h"

namespace shardproof {
namespace {

constexpr double width = 560, height = 260;
constexpr double left = 52, right = 14, top = 12, bottom = 44;
// Okabe and Ito's palette: told apart by colour-blind readers, too.
constexpr const char* colours[] = {"#0072b2", "#e69f00", "#009e73",
                                   "#cc79a7", "#d55e00", "#56b4e9"};

struct Range {
  double lo = 0, hi = 1;
  double tick = 0.2;
};

// A step of 1, 2 or 5 times a power of ten that gives about `wanted` ticks.
double tick_step(double span, int wanted) {
  const double raw = span / wanted, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

Range value_range(const std::vector<ReportSeries>& series) {
  double lo = INFINITY, hi = -INFINITY;
  for (const ReportSeries& each : series) {
    for (const double value : each.values) {
      if (!std::isfinite(value)) continue;
      lo = std::min(lo, value);
      hi = std::max(hi, value);
    }
  }
  if (!(lo <= hi)) return {};
  if (lo == hi) return {lo - 0.5, hi + 0.5, 0.2};
  const double step = tick_step(hi - lo, 5);
  return {std::floor(lo / step) * step, std::ceil(hi / step) * step, step};
}

struct Axes {
  Range x, y;
  double at_x(double value) const {
    return left + (value - x.lo) / (x.hi - x.lo) * (width - left - right);
  }
  double at_y(double value) const {
    return height - bottom - (value - y.lo) / (y.hi - y.lo) * (height - top - bottom);
  }
};

std::string grid(const Axes& axes) {
  std::string out;
  const double y_step = axes.y.tick;
  const auto y_ticks = static_cast<int>(std::lround((axes.y.hi - axes.y.lo) / y_step));
  for (int i = 0; i <= y_ticks; ++i) {
    const double value = axes.y.lo + i * y_step, y = axes.at_y(value);
    out += fmt::format("<line class=\"grid\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"/>",
                       left, y, width - right, y);
    out +=
        fmt::format("<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>",
                    left - 8, y + 4, value);
  }
  const double x_step = std::max(1.0, tick_step(axes.x.hi - axes.x.lo, 10));
  for (double value = axes.x.lo; value <= axes.x.hi + 1e-9; value += x_step) {
    out += fmt::format(
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.0f}</text>",
        axes.at_x(value), height - bottom + 18, value);
  }
  return out +
         fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>",
                     (left + width - right) / 2, height - 8);
}

// Segments of finite values; a lone point becomes a short stroke with round caps.
std::string line(const Axes& axes, const ReportSeries& series, const char* colour, double stroke,
                 double opacity) {
  std::string out, points;
  const auto flush = [&] {
    if (!points.empty()) {
      out += fmt::format(
          "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{:.1f}\" stroke-opacity=\"{}\" "
          "stroke-linecap=\"round\" stroke-linejoin=\"round\" points=\"{}\"/>",
          colour, stroke, opacity, points);
    }
    points.clear();
  };
  for (std::size_t i = 0; i < series.values.size(); ++i) {
    if (!std::isfinite(series.values[i])) {
      flush();
      continue;
    }
    const double x = axes.at_x(static_cast<double>(i) + series.first);
    if (!points.empty()) points += ' ';
    points += fmt::format("{:.1f},{:.1f}", x, axes.at_y(series.values[i]));
  }
  flush();
  return out;
}

}  // namespace

std::string svg_chart(const std::string& title, const std::vector<ReportSeries>& series) {
  Axes axes;
  axes.y = value_range(series);
  axes.x = {0, 1, 1};
  for (const ReportSeries& each : series) {
    const double last =
        static_cast<double>(each.first) + static_cast<double>(each.values.size()) - 1;
    axes.x.hi = std::max(axes.x.hi, last);
  }
  std::string lines, legend;
  const auto count = static_cast<double>(series.size());
  for (std::size_t i = 0; i < series.size(); ++i) {
    const char* colour = colours[i % std::size(colours)];
    const double stroke = 1.5 + 2 * (count - 1 - static_cast<double>(i));
    lines += line(axes, series[i], colour, stroke, i == 0 && count > 1 ? 0.35 : 1);
    legend += fmt::format("<span class=\"key\"><i style=\"background:{}\"></i>{}</span>", colour,
                          escape_markup(series[i].label));
  }
  return fmt::format(
      "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">"
      "{}{}</svg><div class=\"legend\">{}</div></figure>\n",
      escape_markup(title), width, height, escape_markup(title), grid(axes), lines, legend);
}

}  // namespace shardproof
