import java.io.DataInputStream;
import java.io.BufferedInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import moa.evaluation.WindowAUCImbalancedPerformanceEvaluator;

/** MOA's AUC of a sliding window, updated with every event and read. */
public final class RollingAuc {
  /** Arguments: the window, the events to time (the last), and a file of labels and scores. */
  public static void main(String[] arguments) throws Exception {
    int timed = Integer.parseInt(arguments[1]);
    var evaluator = new WindowAUCImbalancedPerformanceEvaluator();
    evaluator.widthOption.setValue(Integer.parseInt(arguments[0]));
    evaluator.reset(2); // classes
    var metric = evaluator.getAucEstimator();
    double sum = 0;
    long begun = 0;
    Path file = Path.of(arguments[2]);
    int events = (int) (Files.size(file) / 16);
    double[] scores = new double[events];
    boolean[] labels = new boolean[events];
    try (var in = new DataInputStream(new BufferedInputStream(Files.newInputStream(file)))) {
      for (int i = 0; i < events; i++) {
        labels[i] = in.readDouble() != 0;
        scores[i] = in.readDouble();
      }
    }
    for (int i = 0; i < events; i++) {
      if (i == events - timed) {
        begun = System.nanoTime();
      }
      metric.add(scores[i], labels[i], labels[i] == scores[i] >= 0.5);
      // Reads before those that are timed let the compiler do its work.
      if (i >= events - 3 * timed) {
        sum += metric.getAUC();
      }
    }
    double seconds = (System.nanoTime() - begun) / 1e9;
    System.out.printf(
        "{\"seconds\": %s, \"auc\": %s, \"sum\": %s}%n", seconds, metric.getAUC(), sum);
  }
}
